# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a chat model's message says, whatever shape its provider gives it."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.messages import BaseMessage

from xr_ai_conversation.state.chat import text_in
from xr_ai_conversation.state.reply import Reply

_FINISH = {"finishreason", "stopreason", "donereason", "completionreason", "incompletedetails"}
_UNFINISHED = ("incomplete", "failed", "cancelled")  # statuses of OpenAI's responses
_REASONING = {"thinking", "redacted_thinking", "reasoning", "reasoning_content"}


def text_of(message: BaseMessage) -> str:
    """Return the text of a message."""
    return text_in(message.content)


def finish_of(message: BaseMessage) -> str:
    """Return the finish reason of a message in its provider's spelling; empty if it has none."""
    metadata = message.response_metadata
    found = [_reason(value) for key, value in metadata.items() if key.replace("_", "").lower() in _FINISH]
    if metadata.get("status") in _UNFINISHED:
        found.append(str(metadata["status"]))
    return " ".join(filter(None, found))


def _reason(value: object) -> str:
    if isinstance(value, Mapping):
        value = value.get("reason")
    return str(value) if value else ""


def reply_of(message: BaseMessage) -> Reply:
    """Return what a model's message is as a reply of the summariser."""
    blocks = [block for block in message.content if isinstance(block, Mapping)]
    kinds = {block.get("type") for block in blocks}
    extra = message.additional_kwargs
    return Reply(
        text=text_of(message),
        reasoned=bool(kinds & _REASONING) or bool(extra.get("reasoning_content") or extra.get("reasoning")),
        finish=finish_of(message),
        refused="refusal" in kinds or bool(extra.get("refusal")),
    )


__all__ = ["finish_of", "reply_of", "text_of"]
