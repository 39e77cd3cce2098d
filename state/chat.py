# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The dialogue as chat messages: what front ends that speak the LangGraph protocol send and show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NotRequired, TypeAlias

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


def text_in(content: str | Sequence[Any]) -> str:
    """Return the text of a message's content, a string or a list of blocks; only text blocks count."""
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in content
        if isinstance(block, str) or (isinstance(block, Mapping) and block.get("type") == "text")
    )


def request_of(messages: Any) -> str:
    """Return the text of the last human message.

    Args:
        messages: LangChain messages, or what stands for them: mappings with a `type` or a `role`, pairs of role and
            text; a string is a human message.

    Raises:
        ValueError: There is none, or it has no text.
    """
    found = _read(messages)
    request = next((text for kind, text, _ in reversed(found) if kind == "human"), "")
    if not visible(request):
        kinds = ", ".join(kind for kind, *_ in found) or "none"
        raise ValueError(f"messages must hold a human message with text, got {kinds}")
    return request


def is_answered(messages: Sequence[ChatMessage], entries: Sequence[Entry]) -> bool:
    """Tell whether the last of the messages is the answer of the newest exchange, so that there is nothing to answer.

    Args:
        messages: As kept.
        entries: The uncompacted exchanges of the dialogue.
    """
    newest = shown(entries[-1:], ())
    return bool(newest) and _said(messages[-2:]) == _said(newest)


def _said(messages: Iterable[ChatMessage]) -> list[tuple[Speaker, str]]:
    return [(message["type"], message["content"]) for message in messages]


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
        found = _read(given)
    except ValueError:
        return [*before]
    last = max((number for number, (kind, *_) in enumerate(found) if kind == "human"), default=0)
    kept = [message for message in before if message["id"] not in {name for *_, name in found[last:]}]
    for kind, text, name in found[last:]:
        if kind in ("human", "ai"):
            made = identity(" ".join(known["id"] for known in kept), text)
            kept.append({"type": "human" if kind == "human" else "ai", "content": text, "id": name or made})
    return kept


def shown(entries: Iterable[Entry], before: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return the uncompacted exchanges of a dialogue as messages.

    Args:
        entries: Of the dialogue.
        before: What was shown until now: a message that is there again, sought from the end, keeps its id.
    """
    messages: list[ChatMessage] = []
    for entry in entries:
        if "request" in entry:
            messages.append({"type": "human", "content": entry["request"], "id": f"{entry['id']}-human"})
            if entry["response"]:
                messages.append({"type": "ai", "content": entry["response"], "id": f"{entry['id']}-ai"})
    newest_first, known = messages[::-1], before[::-1]
    same = SequenceMatcher(None, _said(newest_first), _said(known), autojunk=False)
    for start, place, count in same.get_matching_blocks():
        for number in range(count):
            newest_first[start + number]["id"] = known[place + number]["id"]
    return messages


_SPEAKERS = {"user": "human", "assistant": "ai", "HumanMessageChunk": "human", "AIMessageChunk": "ai"}
"""Other names that messages have for who speaks."""


def _read(messages: Any) -> list[tuple[str, str, str | None]]:
    """Return kind, text and id of each message; one that cannot be read is refused without being told."""
    read: list[tuple[str, str, str | None]] = []
    for message in messages if isinstance(messages, list | tuple) else [messages]:
        kind: Any
        content: Any
        name: Any
        match message:
            case str():
                kind, content, name = "human", message, None
            case Mapping():
                kind = message.get("type") or message.get("role")
                content, name = message.get("content") or "", message.get("id")
            case (kind, content):
                name = None
            case _:
                kind, content, name = (getattr(message, part, None) for part in ("type", "content", "id"))
        readable = isinstance(kind, str) and isinstance(content, str | list) and isinstance(name, str | None)
        if not readable:
            raise ValueError(
                "messages must be a list of messages, each with a type or a role and with content, "
                f"got {type(message).__name__} without them"
            )
        read.append((_SPEAKERS.get(kind, kind), clean(text_in(content)), name))
    return read


__all__ = ["ChatMessage", "is_answered", "request_of", "shown", "text_in", "told"]
