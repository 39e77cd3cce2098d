# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The dialogue as chat messages: what front ends that speak the LangGraph protocol send and show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NotRequired, TypeAlias

from langchain_core.messages import BaseMessage, convert_to_messages
from typing_extensions import TypedDict

from xr_ai_conversation.state.context import Entry
from xr_ai_conversation.state.identity import identity
from xr_ai_conversation.state.text import clean, visible

Speaker: TypeAlias = Literal["human", "ai"]


class ChatMessage(TypedDict):
    """One message as it is kept: plain JSON."""

    type: Speaker
    content: str
    id: NotRequired[str]
    """Is made where it is not given. Front ends tell by it which message is which, and where in the history it first came."""


def text_of(message: BaseMessage) -> str:
    """Return the text of a message whose content is a string or a list of blocks; only text blocks count."""
    if isinstance(message.content, str):
        return message.content
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in message.content
        if isinstance(block, str) or block.get("type") == "text"
    )


def request_of(messages: Any) -> str:
    """Return the text of the last human message.

    Args:
        messages: LangChain messages, or what stands for them: dicts with a `type` or a `role`, pairs of role and
            text; a string is a human message.

    Raises:
        ValueError: There is none, or it has no text.
    """
    found = _messages(messages)
    request = next((text_of(message) for message in reversed(found) if message.type == "human"), "")
    if not visible(request):
        kinds = ", ".join(message.type for message in found) or "none"
        raise ValueError(f"messages must hold a human message with text, got {kinds}")
    return clean(request)


def told(before: Sequence[ChatMessage], given: Any) -> list[ChatMessage]:
    """Return the messages after those that were given; the reducer of `messages`.

    A message of a known id takes the place of the one before. Of a whole conversation only its end is taken, from the
    last human message on, for the rest is known. What cannot be read is passed over: whoever reads the state after a
    run that was refused for it must not be refused as well.

    Args:
        before: As kept.
        given: As `request_of` takes them.
    """
    try:
        found = _messages(given)
    except ValueError:
        return [*before]
    last = max((number for number, message in enumerate(found) if message.type == "human"), default=0)
    kept = [message for message in before if message["id"] not in {new.id for new in found[last:]}]
    for message in found[last:]:
        if message.type in ("human", "ai"):
            text = clean(text_of(message))
            name = message.id or identity(" ".join(known["id"] for known in kept), text)
            kept.append({"type": "human" if message.type == "human" else "ai", "content": text, "id": name})
    return kept


def shown(entries: Iterable[Entry], before: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return the uncompacted exchanges of a dialogue as messages.

    Args:
        entries: Of the dialogue.
        before: What was shown until now: a message that is there again, counted from the end, keeps its id.
    """
    messages: list[ChatMessage] = []
    for entry in entries:
        if "request" in entry:
            messages.append({"type": "human", "content": entry["request"], "id": f"{entry['id']}-human"})
            if entry["response"]:
                messages.append({"type": "ai", "content": entry["response"], "id": f"{entry['id']}-ai"})
    for message, known in zip(reversed(messages), reversed(before), strict=False):
        if (message["type"], message["content"]) != (known["type"], known["content"]):
            break
        message["id"] = known["id"]
    return messages


def _messages(given: Any) -> list[BaseMessage]:
    """Return LangChain's own messages; those that are none are refused without being told."""
    try:
        return convert_to_messages(given if isinstance(given, list | tuple) else [given])
    except Exception as error:  # noqa: BLE001 - it depends on what stands in the place of a message
        raise ValueError(
            "messages must be a list of messages, each with a type or a role and with content, "
            f"got what cannot be read as that ({type(error).__name__})"
        ) from None


__all__ = ["ChatMessage", "request_of", "shown", "text_of", "told"]
