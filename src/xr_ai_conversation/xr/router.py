# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A local agent router: gives each turn of a participant to one of several destinations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from xr_ai_conversation.graph.tasks import ended
from xr_ai_conversation.xr.host import Agent, ResponseOutput, RuntimeContext, Topic
from xr_ai_conversation.xr.lanes import Lanes
from xr_ai_conversation.xr.listening import Receive, replies, subscriber
from xr_ai_conversation.xr.questions import DecisionService
from xr_ai_conversation.xr.routes import Routes
from xr_ai_conversation.xr.routing import AgentTurn, RoutableAgent, TurnResult
from xr_ai_conversation.xr.selection import Selection
from xr_ai_conversation.xr.settle import Failure, attempt, cancel
from xr_ai_conversation.xr.turns import ROUTER, Memory, Output, Run

_LOG = logging.getLogger(__name__)

_Cleanup: TypeAlias = Callable[[str], Awaitable[None]]


class AgentRouter(Agent):
    """Gives each turn to one destination: the one that has the participant's focus, or the one that fits best.

    A participant's turns come one after the other. A new one cancels the one before it and waits until that has
    ended. Participants do not wait for each other. A turn that fails before its answer began ends with a text.

    Its own texts are whole replies, with the name that it is registered under as their source: what an acceptance wants
    said at once, before the answer; the question of a clarification; that there is no answer. Errors are logged by their
    kind, and with their traceback at level DEBUG, since their messages may quote what was said.

    It is used in one of two ways: directly, with `handle` and `output`, or registered with a runtime, with
    `query_topic` and `output_topic`. There its subscribers return at once, so that a publisher is not held up.

    Args:
        destinations: By the names that they are routed and published under.
        decisions: Chooses where several destinations are eligible.
        output: Says a text of the router's: for which turn, for which route, which text. Where no destination has
            the turn the route is "router".
        default: The destination to try when the choice fails or two have declined, if it is eligible; None is none.
        history: How many completed exchanges of a participant are kept and shown to destinations; `decisions` is shown
            the latest.
        error_text: Said when an answer failed before it began.
        unrouted_text: Said when no destination takes the turn.
        decision_timeout_s: Seconds that a choice may take; None is the service's own.
        query_topic: Queries, whose payload has a `text` and perhaps a `timestamp_us`; the message's id is the
            turn's.
        output_topic: Where the router's texts are published, as replies.
        interrupted_topic: Notices that the participant interrupted; without a participant, all did.
        left_topic: Notices that the participant left.
        cleanup_participant: Called when a departed participant's turns have ended and all destinations know.

    Raises:
        TypeError: A destination lacks a method of `RoutableAgent`.
        ValueError: There are no destinations, the default is none of them, the history is negative, or the
            ways of use are mixed.
    """

    def __init__(
        self,
        destinations: Mapping[str, RoutableAgent],
        decisions: DecisionService,
        *,
        output: Output | None = None,
        default: str | None = None,
        history: int = 20,
        error_text: str = "Sorry, something went wrong and I could not answer that.",
        unrouted_text: str = "Sorry, I cannot help with that.",
        decision_timeout_s: float | None = 10.0,
        query_topic: Topic[Any] | None = None,
        output_topic: Topic[ResponseOutput] | None = None,
        interrupted_topic: Topic[Any] | None = None,
        left_topic: Topic[Any] | None = None,
        cleanup_participant: _Cleanup | None = None,
    ) -> None:
        super().__init__()
        _check(destinations, default, history)
        if (query_topic is None) != (output_topic is None):
            raise ValueError("query_topic and output_topic go together: give both or neither")
        if (output is None) == (output_topic is None):
            raise ValueError("give output, or query_topic and output_topic, and not both")
        if query_topic is None and (interrupted_topic or left_topic or cleanup_participant):
            raise ValueError(
                "interrupted_topic, left_topic and cleanup_participant need query_topic and output_topic"
            )
        self._destinations = dict(destinations)
        self._output = output
        self._cleanup = cleanup_participant
        self._lanes = Lanes(history)
        self._routes = Routes(
            Selection(self._destinations, decisions, default, decision_timeout_s), error_text, unrouted_text
        )
        self._graph = self._routes.graph()
        self._closed = False
        if query_topic is not None and output_topic is not None:
            self._on_query = subscriber(self, query_topic, self._queries(output_topic))
        if interrupted_topic is not None:
            self._on_interrupted = subscriber(self, interrupted_topic, self._interrupted)
        if left_topic is not None:
            self._on_left = subscriber(self, left_topic, self._left)

    async def handle(self, turn: AgentTurn) -> TurnResult:
        """Route a turn and wait for what comes of it.

        A failure is said to the participant and returned, not raised. A cancellation cancels the turn, and goes on
        when that has ended. A listener to an answer must not wait here for the participant's next turn, which waits for
        the listener: let it begin that in a task of its own.

        Args:
            turn: Its exchanges are replaced by those that the router knows.

        Returns:
            What came of it; the outcome is "cancelled" if something newer took its place.

        Raises:
            RuntimeError: The router was stopped, or has no `output`.
        """
        if self._output is None:
            raise RuntimeError("this router takes its turns from query_topic")
        task = self._begin(turn, self._output)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            cancel(task)
            await ended((task,))
            raise
        return TurnResult("cancelled") if task.cancelled() else task.result()

    async def interrupt(self, participant_id: str | None = None) -> None:
        """Cancel a participant's turn and wait until it has ended; the focus stays.

        It may be called by a listener to the answer: the turn then ends it as well.

        Args:
            participant_id: Whose; None is everybody's.
        """
        if turns := self._lanes.interrupt(participant_id):
            await asyncio.wait(turns)

    async def participant_left(self, participant_id: str) -> None:
        """Cancel a participant's turn, wait until it has ended, tell all destinations, and forget the participant.

        It goes on to its end if the caller is cancelled; turns under the same id, and `stop`, wait for it.

        Args:
            participant_id: Who left; it may be unknown.

        Raises:
            BaseExceptionGroup: Destinations or the clean-up failed; all were called.
        """
        task = self._depart(participant_id)
        await asyncio.wait((task,))
        task.result()

    async def stop(self) -> None:
        """Take no more turns, cancel those under way, and wait until they and the departures have ended.

        Stopping twice is stopping once. A cancellation goes on when everything has ended.

        Raises:
            RuntimeError: It is called from a turn or a departure, for which it would have to wait.
        """
        self._closed = True
        await self._lanes.stop()

    def _begin(self, turn: AgentTurn, output: Output) -> asyncio.Task[TurnResult]:
        if self._closed:
            raise RuntimeError("the router was stopped and takes no more turns")

        async def work(memory: Memory) -> TurnResult:
            return await self._route(replace(turn, exchanges=tuple(memory.history)), Run(memory, output))

        return self._lanes.begin(turn.participant_id, work, f"turn {turn.turn_id}")

    async def _route(self, turn: AgentTurn, run: Run) -> TurnResult:
        state = await attempt(self._graph.ainvoke({"turn": turn}, context=run))
        if not isinstance(state, Failure):
            result: TurnResult = state["result"]
            return result
        return await self._routes.give_up(turn, run, ROUTER, state.error)

    def _depart(self, participant_id: str) -> asyncio.Task[None]:
        async def work() -> None:
            calls: list[_Cleanup] = [
                destination.participant_left for destination in self._destinations.values()
            ]
            if self._cleanup is not None:
                calls.append(self._cleanup)
            errors = []
            for call in calls:
                outcome = await attempt(_called(call, participant_id))
                if isinstance(outcome, Failure):
                    errors.append(outcome.error)
            if errors:
                raise BaseExceptionGroup("errors while a participant left", errors)

        task = self._lanes.depart(participant_id, work, f"departure of {participant_id}")
        task.add_done_callback(_departed)
        return task

    def _queries(self, output_topic: Topic[ResponseOutput]) -> Receive:
        async def queried(query: Any, context: RuntimeContext) -> None:
            metadata = context.metadata
            if metadata.participant_id is None:
                raise ValueError("a query needs a participant_id")
            given: int | None = getattr(query, "timestamp_us", None)
            begun = metadata.timestamp_us if given is None else given
            turn = AgentTurn(metadata.participant_id, metadata.message_id, query.text, begun)
            self._begin(turn, replies(context, output_topic))

        return queried

    async def _interrupted(self, notice: Any, context: RuntimeContext) -> None:
        self._lanes.interrupt(context.metadata.participant_id)

    async def _left(self, notice: Any, context: RuntimeContext) -> None:
        participant_id = context.metadata.participant_id
        if participant_id is None:
            raise ValueError("a departure needs a participant_id")
        self._depart(participant_id)


def _check(destinations: Mapping[str, RoutableAgent], default: str | None, history: int) -> None:
    if not destinations:
        raise ValueError("destinations must not be empty")
    for name, destination in destinations.items():
        if not name.strip():
            raise ValueError(f"a destination's name must not be blank, got {name!r}")
        if not isinstance(destination, RoutableAgent):
            raise TypeError(f"destination {name!r} must be a RoutableAgent, got {type(destination).__name__}")
    if default is not None and default not in destinations:
        raise ValueError(f"default must be one of {sorted(destinations)}, got {default!r}")
    if history < 0:
        raise ValueError(f"history must not be negative, got {history} exchanges")


async def _called(call: _Cleanup, participant_id: str) -> None:
    await call(participant_id)


def _departed(task: asyncio.Task[None]) -> None:
    """Log a failed departure, which nobody may be waiting for."""
    if not task.cancelled() and (error := task.exception()) is not None:
        fields = {"task": task.get_name(), "error": type(error).__name__}
        _LOG.error("%(task)s failed with %(error)s", fields, extra=fields)


__all__ = ["AgentRouter"]
