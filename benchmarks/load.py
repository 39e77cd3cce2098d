# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Ten thousand participants known to one manager, a thousand of them active at once, in memory and on both databases."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from fakes.chat import Piece, ScriptedModel
from langchain_core.messages import BaseMessage
from rich.progress import Progress

from benchmarks.contenders import quick_summariser
from benchmarks.figures import Benchmark, Row, Rows, Step, Table, shown
from benchmarks.stores import KINDS, Store, stores
from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation.xr import AgentExchange

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOKENS = ("It was ", "checked ", "and ", "looks ", "fine.")
TOKEN_SECONDS = 0.01
KNOWN = 5
"""Exchanges that everybody has had before."""
WRITERS = 32
"""How many participants get their past at once."""

REQUEST, STORED = "call → model request", "call → stored"
DONE, SECONDS, COMMITS, FAILED = "turns", "seconds", "commits", "turns that failed"
_FILL, _ALL, _PACED = "all get a past", "all at once", "at random times"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    participants: int = 10_000
    active: int = 1_000
    turns: int = 2
    """Of each active participant, one after the other, all at once."""
    rate: float = 25.0
    """Turns in a second, at random times."""


QUICK = Plan(participants=40, active=20, turns=1)


@dataclass(slots=True)
class Round:
    """What came of some turns of all who are active."""

    turns: int = 0
    """Turns that have ended as they should."""
    waits_ms: list[float] = field(default_factory=list)
    """From each call to its model request."""
    wholes_ms: list[float] = field(default_factory=list)
    """From each call until its exchange is stored."""
    failures: Counter[str] = field(default_factory=Counter)
    """Turns that raised, by the class of the error and when it came."""


class House:
    """A manager on a store, and a conversation whose model takes its time for each token.

    Args:
        store: The store.
        context: The manager.
    """

    def __init__(self, store: Store, context: ContextManager) -> None:
        self._store = store
        self._context = context
        self._asked: dict[str, float] = {}
        self._model = ScriptedModel(script=self._script)
        self._talk = Conversation(self._model, context=context)

    async def _script(self, messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        self._asked[str(messages[-1].content)] = time.perf_counter()
        self._model.requests.clear()
        for token in TOKENS:
            await asyncio.sleep(TOKEN_SECONDS)
            yield token

    async def fill(self, name: str) -> None:
        """Give a participant a past, in one commit."""
        past = [
            AgentExchange(f"{number}: what do you know about it? {name}", "It looks fine.")
            for number in range(KNOWN)
        ]
        await self._context.reconcile(name, past)

    async def turn(self, name: str, request: str, into: Round) -> None:
        """Take a turn, and note how long it took or how it failed."""
        began = time.perf_counter()
        try:
            async for _ in self._talk.stream(name, request):
                pass
        except Exception as error:  # noqa: BLE001 - to be counted
            when = "with the answer given" if request in self._asked else "before the model"
            into.failures[f"{type(error).__name__} {when}"] += 1
        else:
            into.turns += 1
            into.wholes_ms.append((time.perf_counter() - began) * 1e3)
        if asked := self._asked.pop(request, None):
            into.waits_ms.append((asked - began) * 1e3)

    async def timed(
        self, kind: str, when: str, work: list[Coroutine[None, None, None]], found: Round
    ) -> list[Row]:
        """Do work all at once, and return how long it took and how much came into the store."""
        before, began = await self._store.checkpoints(), time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for each in work:
                tasks.create_task(each)
        seconds = time.perf_counter() - began
        await self._context.settled()
        commits = await self._store.checkpoints() - before  # nobody has so many that some are pruned
        of = {"saver": kind, "when": when}
        failed = [
            Row(FAILED, "turns", {**of, "why": why}, [float(count)]) for why, count in found.failures.items()
        ]
        rows = [
            Row(DONE, "turns", of, [float(found.turns)]),
            Row(SECONDS, "s", of, [seconds]),
            Row(COMMITS, "commits", of, [float(commits)]),
            Row(REQUEST, "ms", of, found.waits_ms),
            Row(STORED, "ms", of, found.wholes_ms),
        ]
        return [*rows, *failed]


async def _fill(house: House, kind: str, plan: Plan, done: Callable[[], None]) -> list[Row]:
    """Give everybody a past."""
    names = iter([f"p{number}" for number in range(plan.participants)])

    async def writer() -> None:
        for name in names:
            await house.fill(name)
            done()

    warm = [house.fill(f"warm {number}") for number in range(WRITERS)]
    await house.timed(kind, _FILL, warm, Round())
    return await house.timed(kind, _FILL, [writer() for _ in range(WRITERS)], Round())


async def measure(kind: str, plan: Plan, progress: Progress) -> list[Row]:
    """Return what was measured of a kind of store."""
    pick = random.Random(1)

    def step(name: str, total: int) -> Callable[[], None]:
        task = progress.add_task(f"load: {kind}, {name}", total=total)
        return lambda: progress.advance(task)

    async with (
        stores(kind) as open_store,
        open_store("load") as store,
        ContextManager(quick_summariser(), checkpointer=store.saver) as context,
    ):
        house = House(store, context)
        rows = await _fill(house, kind, plan, step(_FILL, plan.participants))
        for when, turns in ((_ALL, plan.turns), (_PACED, 1)):
            found, done = Round(), step(when, plan.active * turns)

            async def person(
                name: str,
                pause: float,
                turns: int = turns,
                found: Round = found,
                done: Callable[[], None] = done,
            ) -> None:
                await asyncio.sleep(pause)
                for number in range(turns):
                    await house.turn(name, f"{name} asks, {pause}, {number}", found)
                    done()

            last = plan.active / plan.rate if when == _PACED else 0.0
            work = [person(f"p{number}", pick.uniform(0, last)) for number in range(plan.active)]
            rows += await house.timed(kind, when, work, found)
    return [row for row in rows if row.values]


def steps(quick: bool) -> Mapping[str, Step]:
    """Return what is to be measured."""
    logging.getLogger("xr_ai_conversation").setLevel(logging.ERROR)
    plan = QUICK if quick else Plan()
    return {kind: partial(measure, kind, plan) for kind in KINDS}


def tables(rows: Rows) -> list[Table]:
    """Return what was measured, for each saver and round."""
    table = Table(
        "Turns and commits of one process",
        ["saver", "when", "turns", "turns/s", "commits/s", "failed", f"{REQUEST}, p50 / p95 / p99 ms",
         f"{STORED}, p50 / p95 / p99 ms"],
    )  # fmt: skip
    for seconds in rows.where(SECONDS):
        of = seconds.of
        turns, commits = (row.total if (row := rows.find(what, **of)) else 0 for what in (DONE, COMMITS))
        failed = ", ".join(f"{row.total:,.0f} {row.of['why']}" for row in rows.where(FAILED, **of)) or "0"
        table.add(
            str(of["saver"]), str(of["when"]), f"{turns:,.0f}", shown(turns / seconds.total),
            shown(commits / seconds.total), failed, *(_three(rows.find(what, **of)) for what in (REQUEST, STORED)),
        )  # fmt: skip
    return [table]


def _three(row: Row | None) -> str:
    return " / ".join(shown(row.quantile(share)) for share in (0.5, 0.95, 0.99)) if row else ""


def draw(rows: Rows, figure: Figure) -> None:
    """Draw which share of the turns had its model request on its way after how long."""
    axes = figure.subplots()
    colors = dict(zip(KINDS, ("tab:blue", "tab:orange", "tab:green"), strict=True))
    for row in rows.where(REQUEST):
        times = sorted(row.values)
        shares = [(place + 1) / len(times) for place in range(len(times))]
        style = "-" if row.of["when"] == _PACED else ":"
        label = f"{row.of['saver']}, {row.of['when']}"
        axes.plot(times, shares, style, color=colors[str(row.of["saver"])], label=label)
    axes.set(xscale="log", xlabel=f"{REQUEST}, ms", ylabel="share of the turns")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


LOAD = Benchmark(
    name="load",
    title="Many participants in one process",
    about="""Ten thousand participants get a past of five exchanges in one manager. Then a thousand of them take two turns as
soon as they can, all at once, which is as many turns as can be; then each takes one at a random time, 25 a second, which
is how quick an answer is while there is room. The fake model takes 10 ms for each of five tokens.""",
    steps=steps,
    tables=tables,
    draw=draw,
)

__all__ = ["LOAD"]
