# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The conversation as one destination of an agent router."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import aclosing
from contextvars import copy_context

from langchain_core.language_models import BaseChatModel

from xr_ai_conversation.graph.conversation import BaseConversation
from xr_ai_conversation.graph.ledger import Snapshot
from xr_ai_conversation.graph.manager import Asked, BaseContextManager
from xr_ai_conversation.graph.tasks import drained, ended, unbroken
from xr_ai_conversation.state.times import from_microseconds
from xr_ai_conversation.xr.host import (
    Admission,
    AgentExchange,
    AgentTurn,
    DestinationResult,
    ResponseOutput,
    RoutingAid,
    Topic,
    current_turn_context,
)
from xr_ai_conversation.xr.response import Publisher, Response
from xr_ai_conversation.xr.routing import Started
from xr_ai_conversation.xr.settle import Failure, attempt

_LOG = logging.getLogger(__name__)

_SOURCE = "conversation"
"""Who answers, where no router has given the name."""


class Conversation(BaseConversation):
    """Answers participants, each from its own context: embedded, with `stream`, or routed, with `answer`.

    It is a `RoutableAgent`. It does not own the model, the context manager or the runtime: start the runtime before
    it answers, and stop it when the router has ended its turns. Several conversations may share one context manager.

    Args:
        llm: The chat model that answers.
        context: Keeps what is remembered; the application owns and closes it.
        instructions: The application's instructions, after the system prompt.
        system_prompt: Replaces the default system prompt entirely, also when empty; None keeps it.
        routing: What a router chooses it by; None is its name alone.
        runtime: Delivers the pieces of routed answers; `stream` does without.
        output_topic: Where they are published, such as `VOICE_OUTPUT_TOPIC`. It goes with `runtime`.
        record_interrupted: Record a cancelled answer too, with as much of it as had been given out, and marked as
            interrupted. Otherwise nothing of it is remembered, and not what was asked either.

    Raises:
        TypeError: The model is no chat model, or the context no context manager.
        ValueError: Of `runtime` and `output_topic` only one is given.
    """

    def __init__(
        self,
        llm: BaseChatModel,
        *,
        context: BaseContextManager,
        instructions: str = "",
        system_prompt: str | None = None,
        routing: RoutingAid | None = None,
        runtime: Publisher | None = None,
        output_topic: Topic[ResponseOutput] | None = None,
        record_interrupted: bool = False,
    ) -> None:
        super().__init__(
            llm,
            context=context,
            instructions=instructions,
            system_prompt=system_prompt,
            record_interrupted=record_interrupted,
        )
        if (runtime is None) != (output_topic is None):
            raise ValueError("runtime and output_topic go together: give both or neither")
        self._routing = routing
        self._runtime = runtime
        self._output_topic = output_topic

    @property
    def routing(self) -> RoutingAid | None:
        """What a router chooses it by; None is its name alone."""
        return self._routing

    async def admit(self, turn: AgentTurn) -> Admission:
        """Take the turn; once closed, hand it back for another route."""
        return Admission("decline" if self._closed else "accept")

    async def answer(self, turn: AgentTurn, started: Started | None = None) -> DestinationResult:
        """Answer a turn, and publish the answer as a reply to it while it is made.

        The turn's completed exchanges are reconciled into the context. The exchange is recorded, durably, before
        this returns; no piece waits for that. A cancellation ends the model and what had been begun to publish, and
        goes on when both have ended, however often it comes; if the model had ended by itself, the exchange is
        recorded first.

        Args:
            turn: The query; the exchange is recorded as of its time.
            started: Called once, just before the first piece is published, and awaited if it is awaitable.

        Returns:
            The completed exchange; the focus stays as it is.

        Raises:
            BaseExceptionGroup: A subscriber of the output failed; what had been begun is ended, nothing is recorded.
            EmptyAnswerError: The model ended without any text; nothing is published.
            RuntimeError: The conversation is closed, or has no runtime.
            ValueError: An id, the time or the text of the turn cannot be.
        """
        if self._runtime is None or self._output_topic is None:
            raise RuntimeError(
                "answer needs the runtime and output_topic of the constructor; stream does without"
            )
        request = self._accepted(turn.text)
        now = self._context.clock()
        time = now if turn.timestamp_us is None else from_microseconds(turn.timestamp_us)
        asked = Asked(turn.participant_id, request, turn.turn_id, time=time, told=now)
        response = Response(self._runtime, self._output_topic, turn, _route(turn), started)
        return await drained(self._respond(turn, asked, response), f"answer to turn {turn.turn_id}")

    async def release(self, participant_id: str) -> None:
        """Lose the participant's focus, which changes nothing of what is remembered."""

    async def participant_left(self, participant_id: str) -> None:
        """Let a participant go; the context stays, since others may share it: `ContextManager.clear` forgets it."""

    async def _respond(self, turn: AgentTurn, asked: Asked, response: Response) -> DestinationResult:
        seen = history = None
        try:
            seen, history = await self._context.with_history(turn.participant_id, turn.exchanges)
            async with aclosing(self._pieces(asked, seen)) as pieces:
                async for piece in pieces:
                    await response.say(piece)
        except BaseException as error:
            interrupted = isinstance(error, asyncio.CancelledError)
            broken = self._break_off(asked, response, seen, history, interrupted=interrupted)
            await unbroken(broken, "end of a broken answer", copy_context())
            raise
        await unbroken(self._complete(asked, response, seen, history), "end of an answer", copy_context())
        said = "".join(response.said)
        return DestinationResult(AgentExchange(asked.request, said, turn.timestamp_us, turn.turn_id))

    async def _complete(
        self, asked: Asked, response: Response, seen: Snapshot, history: asyncio.Task[None] | None
    ) -> None:
        try:
            await response.end()
        finally:
            if history:
                await ended((history,))
                history.exception()  # it is known, also where the end could not be published
        if history:
            history.result()
        await self._context.record_answer(asked, "".join(response.said), seen)

    async def _break_off(
        self,
        asked: Asked,
        response: Response,
        seen: Snapshot | None,
        history: asyncio.Task[None] | None,
        *,
        interrupted: bool,
    ) -> None:
        """End what was begun; what goes wrong here must not hide why the answer was broken off."""
        rest: list[Awaitable[None]] = [response.end()]
        if history:
            rest.append(history)
        if interrupted:
            rest.append(self._interrupted(asked, response.said, seen))
        for outcome in [await attempt(work) for work in rest]:
            if isinstance(outcome, Failure):
                fields = {
                    "turn_id": asked.turn_id,
                    "participant_id": asked.participant_id,
                    "error": type(outcome.error).__name__,
                }
                _LOG.warning(
                    "turn %(turn_id)r of participant %(participant_id)r: the end of a broken answer failed with %(error)s",
                    fields,
                    extra=fields,
                )


def _route(turn: AgentTurn) -> str:
    """Return the name that a turn is routed under."""
    try:
        routed = current_turn_context()
    except LookupError:
        return _SOURCE
    ours = (routed.participant_id, routed.turn_id) == (turn.participant_id, turn.turn_id)
    return routed.route if ours else _SOURCE


__all__ = ["Conversation"]
