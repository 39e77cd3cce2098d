# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The order of a participant's turns: one at a time, each after all that was begun before it has ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xr_ai_conversation.graph.tasks import ended
from xr_ai_conversation.xr.routing import TurnResult
from xr_ai_conversation.xr.settle import cancel
from xr_ai_conversation.xr.turns import Memory

_T = TypeVar("_T")

_OWNER: ContextVar[asyncio.Task[object] | None] = ContextVar("xr_ai_conversation.lane_task", default=None)
"""The lane's task that the current code runs in, or was begun from."""


@dataclass(slots=True, eq=False)
class Lane:
    """A participant, from the first turn until the departure."""

    memory: Memory
    """What the router knows of the participant."""
    turns: set[asyncio.Task[TurnResult]] = field(default_factory=set)
    """Turns that have not ended; all but the newest are cancelled."""
    departures: set[asyncio.Task[None]] = field(default_factory=set)
    """Departures, of whoever had the id before, that have not ended."""

    def interrupt(self) -> None:
        """Cancel the turns, without waiting for them."""
        for task in self.turns:
            cancel(task)


class Lanes:
    """The lanes of all participants, and the tasks in them.

    Args:
        history: How many completed exchanges of a participant are kept.
    """

    def __init__(self, history: int) -> None:
        self._history = history
        self._lanes: dict[str, Lane] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._lanes)

    def begin(
        self, participant_id: str, work: Callable[[Memory], Awaitable[TurnResult]], name: str
    ) -> asyncio.Task[TurnResult]:
        """Cancel the participant's turn, and begin another as soon as it has ended.

        Args:
            participant_id: Whose.
            work: What the turn does, with what is known of the participant.
            name: Of the task.
        """
        lane = self._lane(participant_id)
        lane.interrupt()
        before: list[asyncio.Task[Any]] = [*lane.turns, *lane.departures]
        task = asyncio.create_task(_after(before, lambda: work(lane.memory)), name=name)
        self._enter(participant_id, lane, lane.turns, task)
        return task

    def depart(
        self, participant_id: str, work: Callable[[], Awaitable[None]], name: str
    ) -> asyncio.Task[None]:
        """Cancel the participant's turn, forget the participant, and do what else is to be done when it has ended.

        A turn that is begun meanwhile, under the same id, waits for it, and finds nothing remembered. A departure that is
        reported again before that is the same one.

        Args:
            participant_id: Whose.
            work: What else is to be done.
            name: Of the task.
        """
        known = self._lanes.get(participant_id)
        if known and known.departures and not known.turns:
            return next(iter(known.departures))
        left = self._lanes.pop(participant_id, None)
        before: list[asyncio.Task[Any]] = [*left.turns, *left.departures] if left else []
        if left:
            left.interrupt()
        lane = self._lane(participant_id)
        task = asyncio.create_task(_after(before, work), name=name)
        self._enter(participant_id, lane, lane.departures, task)
        return task

    def interrupt(self, participant_id: str | None) -> tuple[asyncio.Task[TurnResult], ...]:
        """Cancel a participant's turn, or everybody's, without waiting; return what was cancelled."""
        if participant_id is None:
            lanes = list(self._lanes.values())
        else:
            lanes = [self._lanes[participant_id]] if participant_id in self._lanes else []
        for lane in lanes:
            lane.interrupt()
        return tuple(task for lane in lanes for task in lane.turns)

    async def stop(self) -> None:
        """Cancel all turns, and wait until everything has ended.

        Raises:
            RuntimeError: It is called by what it would wait for.
        """
        owner = _OWNER.get()
        if owner is not None and owner in self._tasks:
            raise RuntimeError("a router cannot be stopped by a turn or a departure that it would wait for")
        self.interrupt(None)
        while pending := [task for task in self._tasks if not task.done()]:
            await ended(pending)

    def _lane(self, participant_id: str) -> Lane:
        if participant_id not in self._lanes:
            self._lanes[participant_id] = Lane(Memory(deque(maxlen=self._history)))
        return self._lanes[participant_id]

    def _enter(
        self, participant_id: str, lane: Lane, tasks: set[asyncio.Task[_T]], task: asyncio.Task[_T]
    ) -> None:
        def leave(over: asyncio.Task[_T]) -> None:
            tasks.discard(over)
            self._tasks.discard(over)
            memory = lane.memory
            idle = not (lane.turns or lane.departures or memory.history or memory.focus)
            if idle and self._lanes.get(participant_id) is lane:
                del self._lanes[participant_id]

        tasks.add(task)
        self._tasks.add(task)
        task.add_done_callback(leave)


async def _after(before: Iterable[asyncio.Task[Any]], work: Callable[[], Awaitable[_T]]) -> _T:
    # a turn that is cancelled while it waits may leave at once: what comes after it waits for the same tasks
    _OWNER.set(asyncio.current_task())
    if waiting := [task for task in before if not task.done()]:
        await asyncio.wait(waiting)
    return await work()


__all__ = ["Lane", "Lanes"]
