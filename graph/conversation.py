# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The conversation: answers a participant from instructions, from what is remembered, and streams the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from xr_ai_conversation.graph.build import check_chat_model, live_graph
from xr_ai_conversation.graph.history import Explanation, explanation
from xr_ai_conversation.graph.ledger import Snapshot
from xr_ai_conversation.graph.manager import Asked, BaseContextManager
from xr_ai_conversation.graph.participants import check_participant_id
from xr_ai_conversation.graph.system import system_text
from xr_ai_conversation.graph.tasks import drawn
from xr_ai_conversation.nodes.answer import answer_messages, answer_node
from xr_ai_conversation.state.prompt import prompt_view
from xr_ai_conversation.state.text import clean, visible
from xr_ai_conversation.state.times import stamp

_LOG = logging.getLogger(__name__)


class BaseConversation:
    """Answers participants, each from its own context, without a host around it.

    Args:
        llm: The chat model that answers.
        context: Keeps what is remembered; the application owns and closes it. Several conversations may share one.
        instructions: The application's instructions, after the system prompt.
        system_prompt: Replaces the default system prompt entirely, also when empty; None keeps it.
        record_interrupted: Record a cancelled answer too, with as much of it as had been given out, and marked as
            interrupted. Otherwise nothing of it is remembered, and not what was asked either.

    Raises:
        TypeError: The model is no chat model, or the context no context manager.
    """

    def __init__(
        self,
        llm: BaseChatModel,
        *,
        context: BaseContextManager,
        instructions: str = "",
        system_prompt: str | None = None,
        record_interrupted: bool = False,
    ) -> None:
        check_chat_model(llm)
        if not isinstance(context, BaseContextManager):
            raise TypeError(f"context must be a ContextManager, got {type(context).__name__}")
        self._context = context
        self._system = system_text(system_prompt, instructions)
        self._live = live_graph("answer", answer_node(llm, self._system, context.budgets, context.clock))
        self._record_interrupted = record_interrupted
        self._closed = False

    async def stream(
        self, participant_id: str, text: str, *, turn_id: str | None = None
    ) -> AsyncGenerator[str, None]:
        """Answer a request, piece by piece; the exchange is recorded when the stream ends by itself.

        It waits for no compaction, update or other answer. A stream that is closed or cancelled before its end
        cancels the model. Close it (`contextlib.aclosing`) if it is left early.

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
        request = self._accepted(text)
        check_participant_id(participant_id)
        now = self._context.clock()
        asked = Asked(participant_id, request, turn_id, time=now, told=now)
        said: list[str] = []
        seen: Snapshot | None = None
        try:
            seen = await self._context.read(participant_id)
            async with aclosing(self._pieces(asked, seen)) as pieces:
                async for piece in pieces:
                    said.append(piece)
                    yield piece
        except (asyncio.CancelledError, GeneratorExit):
            await self._interrupted(asked, said, seen)
            raise
        await self._context.record_answer(asked, "".join(said), seen)

    async def messages(self, participant_id: str, text: str) -> list[BaseMessage]:
        """Return the three messages that an answer to `text` would send now: system, context and request.

        Args and errors are those of `stream`; a closed conversation still tells.
        """
        request = _checked(text)
        seen = prompt_view(await self._context.snapshot(participant_id), self._context.budgets)
        return answer_messages(self._system, seen, request, self._context.clock())

    async def explain(self, participant_id: str, turn: str | int = -1) -> Explanation:
        """Return what the model was sent for an answer of the past, made again from the checkpoint that it saw.

        The system message is this conversation's: instructions are the application's, and are not stored. A closed
        conversation still tells.

        Args:
            participant_id: Whose; any string of 1 to 512 bytes.
            turn: The id of the turn, or of the exchange as `ContextManager.history` tells it; or a negative number,
                where -1 is the newest exchange that is kept. An answer that was begun twice is the newer one.

        Raises:
            ContextSchemaError: What is stored is damaged, or of a newer version.
            HistoryError: It cannot be told: what the answer was made from is no longer kept, the answer is another
                agent's, or there is none.
            TypeError: The turn is neither.
            ValueError: The id cannot be, or the number is not negative.
        """
        checkpoints = await self._context.checkpoints(participant_id)
        return explanation(
            checkpoints, turn, self._system, self._context.budgets, participant_id=participant_id
        )

    async def close(self) -> None:
        """Take no new requests; answers under way go on. The context manager stays open."""
        self._closed = True

    async def _interrupted(self, asked: Asked, said: list[str], seen: Snapshot | None) -> None:
        """Record what was cut short, if that is wanted; a failure must not hide the cancellation."""
        if not self._record_interrupted:
            return
        try:
            await self._context.record_answer(asked, "".join(said), seen, interrupted=True)
        except Exception as error:  # noqa: BLE001 - a store may raise anything
            fields = {"participant_id": asked.participant_id, "error": type(error).__name__}
            _LOG.warning(
                "participant %(participant_id)r: an interrupted answer was not recorded (%(error)s)",
                fields,
                extra=fields,
            )

    def _accepted(self, text: str) -> str:
        request = _checked(text)
        if self._closed:
            raise RuntimeError("the conversation is closed and takes no new requests")
        return request

    def _pieces(self, asked: Asked, seen: Snapshot) -> AsyncGenerator[str, None]:
        """Yield an answer's pieces; the model has ended when this is left, and by itself if this ends by itself.

        Raises:
            RuntimeError: The answer was broken off by something in the graph.
        """
        return drawn(self._run(asked, seen), "an answer")

    async def _run(self, asked: Asked, seen: Snapshot) -> AsyncGenerator[str, None]:
        whole = False
        # typed as any iterator of mappings, it is an async generator of pairs
        parts = cast(
            "AsyncGenerator[tuple[str, str], None]",
            self._live.astream(
                {"known": seen.context, "request": asked.request, "asked": stamp(asked.told)},
                {"run_name": "answer", "metadata": _metadata(asked)},
                stream_mode=["custom", "updates"],
            ),
        )
        with self._context.metrics.answer() as spoken:
            async with aclosing(parts):
                async for mode, part in parts:
                    if mode == "custom":
                        spoken()
                        yield part
                    elif "answer" in part:  # what the node returns when the model has ended
                        whole = True
            if not whole:
                raise RuntimeError("the answer was broken off; nothing was recorded")


def _metadata(asked: Asked) -> dict[str, str]:
    """Return what the trace of an answer tells of it."""
    turn = {"turn_id": asked.turn_id} if asked.turn_id else {}
    return {"participant_id": asked.participant_id, **turn}


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}")
    if not visible(text):
        raise ValueError(f"text must not be blank, got {len(text)} blank characters")
    return clean(text)


__all__ = ["BaseConversation"]
