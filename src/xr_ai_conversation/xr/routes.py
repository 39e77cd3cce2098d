# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The graph that a routed turn runs through: whose it is, whether it is taken, and what came of it."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from xr_ai_conversation.xr.routing import (
    TURN,
    AgentExchange,
    AgentTurn,
    DestinationResult,
    NoRouteError,
    RoutingTurnContext,
    TurnResult,
)
from xr_ai_conversation.xr.selection import Selection
from xr_ai_conversation.xr.settle import Failure, attempt
from xr_ai_conversation.xr.turns import ROUTER, Memory, Output, Run, Step, TurnState

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

RouteGraph: TypeAlias = CompiledStateGraph[TurnState, Run, TurnState, TurnState]


@dataclass(frozen=True, slots=True)
class Routes:
    """The nodes, and what they work with."""

    selection: Selection
    """Chooses where nobody has the focus."""
    error_text: str
    """Said when an answer failed before it began."""
    unrouted_text: str
    """Said when no destination takes the turn."""

    def graph(self) -> RouteGraph:
        """Return the compiled graph; it keeps no checkpoints, also inside a graph that does."""
        graph: StateGraph[TurnState, Run, TurnState, TurnState] = StateGraph(TurnState, context_schema=Run)
        nodes: dict[Step, tuple[Any, list[str]]] = {  # Any: langgraph's node protocols are not of methods
            "focus": (self.focus, ["admit", "select"]),
            "select": (self.select, ["admit", "fail"]),
            "admit": (self.admit, ["answer", "clarify", "select", "fail"]),
            "answer": (self.answer, ["fail", END]),
            "clarify": (self.clarify, [END]),
            "fail": (self.fail, [END]),
        }
        for name, (node, following) in nodes.items():
            graph.add_node(name, node)
            graph.add_conditional_edges(name, _next, following)
        graph.add_edge(START, "focus")
        return graph.compile(checkpointer=False)

    async def focus(self, state: TurnState, runtime: Runtime[Run]) -> TurnState:
        """Give the turn to the destination that has the focus, unless that cannot have it any more."""
        memory, turn = runtime.context.memory, state["turn"]
        if memory.focus is not None and self.selection.eligible(memory.focus, turn):
            return {"route": memory.focus, "focused": True, "next": "admit"}
        await self._unfocus(memory, turn)
        return {"next": "select"}

    async def select(self, state: TurnState, runtime: Runtime[Run]) -> TurnState:
        """Choose a destination."""
        route = await attempt(self.selection.choose(state["turn"], state.get("declined", ())))
        if isinstance(route, Failure):
            return {"route": "", "error": route.error, "next": "fail"}
        if route is None:
            return {"route": "", "error": NoRouteError("no destination takes the turn"), "next": "fail"}
        return {"route": route, "focused": False, "next": "admit"}

    async def admit(self, state: TurnState, runtime: Runtime[Run]) -> TurnState:
        """Ask the destination whether it takes the turn."""
        turn, route = state["turn"], state["route"]
        admission = await self._call(state, self.selection.destinations[route].admit(turn))
        if isinstance(admission, Failure):
            return {"error": admission.error, "next": "fail"}
        disposition = admission.disposition
        if disposition == "accept":
            return {"admission": admission, "next": "answer"}
        if disposition == "clarify":
            return {"admission": admission, "next": "clarify"}
        if disposition == "release" and state["focused"]:
            await self._unfocus(runtime.context.memory, turn)
            return {"next": "select"}
        # without the focus there is nothing to release, and asking again would go round in circles
        return {"declined": (*state.get("declined", ()), route), "next": "select"}

    async def answer(self, state: TurnState, runtime: Runtime[Run]) -> TurnState:
        """Let the destination answer, after what it wants to have said at once."""
        preamble = state["admission"].text
        if preamble.strip():
            await _say(runtime.context.output, state["turn"], state["route"], preamble)
        result = await self._call(state, self._answered(state, runtime.context))
        if isinstance(result, Failure):
            return {"error": result.error, "next": "fail"}
        return {"result": TurnResult("answered", state["route"], result.exchange)}

    async def clarify(self, state: TurnState, runtime: Runtime[Run]) -> TurnState:
        """End the turn with the destination's question, which the next turn's answer will need."""
        turn, route, question = state["turn"], state["route"], state["admission"].text
        failure = await _say(runtime.context.output, turn, route, question)
        if failure is not None:
            return {"result": TurnResult("failed", route, error=failure.error)}
        exchange = AgentExchange(turn.text, question, turn.timestamp_us, turn.turn_id)
        runtime.context.memory.history.append(exchange)
        return {"result": TurnResult("clarified", route, exchange)}

    async def fail(self, state: TurnState, runtime: Runtime[Run]) -> TurnState:
        """Say that there is no answer, unless one has begun: the destination has ended that itself."""
        error = state["error"] or LookupError("no destination takes the turn")
        return {"result": await self.give_up(state["turn"], runtime.context, state["route"] or ROUTER, error)}

    async def give_up(self, turn: AgentTurn, run: Run, route: str, error: BaseException) -> TurnResult:
        """Say that there is no answer, unless one has begun, and return what came of the turn.

        Args:
            turn: The turn.
            run: What its nodes share.
            route: The destination that failed, or `ROUTER`.
            error: Why there is no answer.
        """
        fields = {
            "turn_id": turn.turn_id,
            "participant_id": turn.participant_id,
            "route": route,
            "error": type(error).__name__,
        }
        said = "turn %(turn_id)r of participant %(participant_id)r: route %(route)r failed with %(error)s"
        _LOG.error(said, fields, extra=fields)
        _LOG.debug(said, fields, extra=fields, exc_info=error)
        if not run.begun:
            await _say(
                run.output,
                turn,
                route,
                self.unrouted_text if isinstance(error, NoRouteError) else self.error_text,
            )
        return TurnResult("failed", None if route == ROUTER else route, error=error)

    async def _answered(self, state: TurnState, run: Run) -> DestinationResult:
        """Await the answer and take it in without a pause, so that no cancellation comes between."""

        def started() -> None:
            run.begun = True

        turn, route, memory = state["turn"], state["route"], run.memory
        found = await self.selection.destinations[route].answer(turn, started=started)
        result = found or DestinationResult()
        if result.exchange is not None:
            # with its turn, an exchange that was recorded is known again wherever it stands in a history
            exchange = replace(result.exchange, turn_id=result.exchange.turn_id or turn.turn_id)
            result = replace(result, exchange=exchange)
            memory.history.append(exchange)
        if result.focus == "take" and memory.focus != route:
            await self._unfocus(memory, turn, route)
        elif result.focus == "release" and memory.focus == route:
            await self._unfocus(memory, turn)
        return result

    async def _unfocus(self, memory: Memory, turn: AgentTurn, successor: str | None = None) -> None:
        """Move the focus, and tell the destination that had it."""
        owner, memory.focus = memory.focus, successor
        if owner is None:
            return
        failure = await attempt(self.selection.destinations[owner].release(turn.participant_id))
        if isinstance(failure, Failure):
            fields = {
                "participant_id": turn.participant_id,
                "route": owner,
                "error": type(failure.error).__name__,
            }
            _LOG.warning("route %(route)r: its release failed with %(error)s", fields, extra=fields)

    async def _call(self, state: TurnState, work: Coroutine[Any, Any, _T]) -> _T | Failure:
        turn = state["turn"]
        context = RoutingTurnContext(
            turn.participant_id, turn.turn_id, state["route"], state["focused"], turn.timestamp_us
        )
        with _within(context):
            return await attempt(work)


@contextmanager
def _within(context: RoutingTurnContext) -> Iterator[None]:
    token = TURN.set(context)
    try:
        yield
    finally:
        TURN.reset(token)


async def _say(output: Output, turn: AgentTurn, route: str, text: str) -> Failure | None:
    async def say() -> None:
        await output(turn, route, text)

    failure = await attempt(say())
    if failure is not None:
        fields = {
            "turn_id": turn.turn_id,
            "participant_id": turn.participant_id,
            "characters": len(text),
            "error": type(failure.error).__name__,
        }
        _LOG.error(
            "turn %(turn_id)r of participant %(participant_id)r: %(characters)d characters could not be said: %(error)s",
            fields,
            extra=fields,
        )
    return failure


async def _next(state: TurnState) -> str:
    return END if "result" in state else state["next"]


__all__ = ["RouteGraph", "Routes"]
