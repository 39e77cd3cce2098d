# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The conversation: answers a participant from instructions, from what is remembered, and streams the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from xr_ai_conversation.graph.build import live_graph
from xr_ai_conversation.graph.manager import ContextManager
from xr_ai_conversation.graph.system import system_text
from xr_ai_conversation.nodes.answer import answer_messages, answer_node
from xr_ai_conversation.state.text import clean, visible


class Conversation:
    """Answers participants, each from its own context; several may share one context manager.

    Args:
        llm: The chat model that answers.
        context: Keeps what is remembered; the application owns and closes it.
        instructions: The application's instructions, after the system prompt.
        system_prompt: Replaces the default system prompt entirely, also when empty; None keeps it.
    """

    def __init__(
        self,
        llm: BaseChatModel,
        *,
        context: ContextManager,
        instructions: str = "",
        system_prompt: str | None = None,
    ) -> None:
        self._context = context
        self._system = system_text(system_prompt, instructions)
        self._live = live_graph("answer", answer_node(llm, self._system, context.budgets, context.clock))
        self._closed = False

    async def stream(
        self, participant_id: str, text: str, *, turn_id: str | None = None
    ) -> AsyncGenerator[str, None]:
        """Answer a request, piece by piece; the exchange is recorded when the stream ends by itself.

        It waits for no compaction, update or other answer. A stream that is closed or cancelled before its end
        cancels the model and records nothing. Close it (`contextlib.aclosing`) if it is left early.

        Args:
            participant_id: Who asks; any string of 1 to 512 bytes.
            text: The request; it is never cut.
            turn_id: The id of the turn, where there is one; the same turn is recorded once.

        Yields:
            Pieces of the answer's text, none of them empty, without the model's reasoning.

        Raises:
            EmptyAnswerError: The model ended without any text; nothing is recorded.
            RuntimeError: The conversation is closed.
            ValueError: The id cannot be, or the text is blank.
        """
        request = _checked(text)
        if self._closed:
            raise RuntimeError("the conversation is closed and takes no new requests")
        asked = self._context.clock()
        context = await self._context.snapshot(participant_id)
        said: list[str] = []
        ended = False
        task = asyncio.current_task()
        cancellations = task.cancelling() if task else 0
        # typed as any iterator of mappings, it is an async generator of pairs
        parts = cast(
            "AsyncGenerator[tuple[str, str], None]",
            self._live.astream({"context": context, "request": request}, stream_mode=["custom", "updates"]),
        )
        async with aclosing(parts):
            async for mode, part in parts:
                if mode == "custom":
                    said.append(part)
                    yield part
                else:  # what the node returns when the model has ended
                    ended = True
        if not ended:
            raise RuntimeError("the answer was broken off; nothing was recorded")
        await self._context.record_exchange(
            participant_id, request, "".join(said), turn_id=turn_id, timestamp=asked
        )
        if task and task.cancelling() > cancellations:
            raise asyncio.CancelledError  # it came as the graph ended, which takes it for its own

    async def messages(self, participant_id: str, text: str) -> list[BaseMessage]:
        """Return the three messages that an answer to `text` would send now: system, context and request.

        Args and errors are those of `stream`.
        """
        request = _checked(text)
        context = await self._context.snapshot(participant_id)
        return answer_messages(self._system, context, self._context.budgets, request, self._context.clock())

    async def close(self) -> None:
        """Take no new requests; answers under way go on. The context manager stays open."""
        self._closed = True


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}")
    if not visible(text):
        raise ValueError(f"text must not be blank, got {len(text)} blank characters")
    return clean(text)


__all__ = ["Conversation"]
