# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Ten thousand participants known to one manager, a thousand of them active at once, in memory and on both databases.

    uv run python benchmarks/load.py [picture.png] [--quick]

First everybody gets a past. Then each active participant takes a turn as soon as the one before has ended, all at once:
that is as many turns as can be. Then they come at random times, as many in a second in each store: so quick is an
answer while there is room. The model takes 10 ms for each of a few tokens. The figures are also written beside the
picture, as JSON. Some minutes; --quick is for a look.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fakes.chat import Piece, ScriptedModel, says
from storage import (
    COLORS,
    KINDS,
    SUMMARY,
    ServerStore,
    Store,
    arguments,
    opened,
    postgres,
    pyplot,
    quantile,
    quiet,
    shown_progress,
    written,
)

from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation.xr import AgentExchange

TOKENS = ("It was ", "checked ", "and ", "looks ", "fine.")
TOKEN_SECONDS = 0.01
KNOWN = 5
"""Exchanges that everybody has had before."""
WRITERS = 32
"""How many participants get their past at once."""
_COUNT = "SELECT count(*) FROM checkpoints"


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
    """Some turns of all who are active."""

    turns: int = 0
    """Turns that have ended as they should."""
    seconds: float = 0.0
    commits: int = 0
    """Checkpoints that the store has more of than before, those of compactions among them."""
    waits_ms: list[float] = field(default_factory=list)
    """From each call to its model request."""
    wholes_ms: list[float] = field(default_factory=list)
    """From each call until its exchange is stored."""
    failures: dict[str, int] = field(default_factory=dict)
    """Turns that raised, by the class of the error and when it came."""


@dataclass(slots=True)
class Row:
    """What was measured of one kind of store."""

    saver: str
    fill_seconds: float = 0.0
    fill_commits: int = 0
    rss_a_participant: float = 0.0
    """Bytes that the process has grown by, for each participant that got a past."""
    blocks_a_participant: float = 0.0
    """The same in blocks of Python's allocator."""
    records: int = 0
    """Records of participants that the manager holds at the end."""
    saturated: Round = field(default_factory=Round)
    paced: Round = field(default_factory=Round)


class Timed:
    """A model that takes its time for each token, and notes when it is asked; a request is told by its text."""

    def __init__(self) -> None:
        self.asked: dict[str, float] = {}
        self.model = ScriptedModel(script=self._script)

    async def _script(self, messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        self.asked[str(messages[-1].content)] = time.perf_counter()
        self.model.requests.clear()
        for token in TOKENS:
            await asyncio.sleep(TOKEN_SECONDS)
            yield token


class House:
    """A manager on a store, and a conversation.

    Args:
        store: The store.
        context: The manager.
    """

    def __init__(self, store: Store, context: ContextManager) -> None:
        self.store = store
        self.context = context
        self._timed = Timed()
        self._talk = Conversation(self._timed.model, context=context)

    async def fill(self, name: str) -> None:
        """Give a participant a past, in one commit."""
        past = [
            AgentExchange(f"{number}: what do you know about it? {name}", "It looks fine.")
            for number in range(KNOWN)
        ]
        await self.context.reconcile(name, past)

    async def turn(self, name: str, request: str, into: Round) -> None:
        """Take a turn, and note how long it took or how it failed."""
        began = time.perf_counter()
        try:
            async for _ in self._talk.stream(name, request):
                pass
        except Exception as error:  # noqa: BLE001 - to be counted
            when = "with the answer given" if request in self._timed.asked else "before the model"
            what = f"{type(error).__name__} {when}"
            into.failures[what] = into.failures.get(what, 0) + 1
        else:
            into.turns += 1
            into.wholes_ms.append((time.perf_counter() - began) * 1e3)
        if asked := self._timed.asked.pop(request, None):
            into.waits_ms.append((asked - began) * 1e3)

    async def checkpoints(self) -> int:
        """Return how many checkpoints the store holds; nobody has so many that some are pruned."""
        saver = self.store.saver
        if isinstance(saver, InMemorySaver):
            return sum(len(found) for thread in saver.storage.values() for found in thread.values())
        if isinstance(saver, AsyncSqliteSaver):
            return sum(int(row[0]) for row in await saver.conn.execute_fetchall(_COUNT))
        assert isinstance(self.store, ServerStore)
        async with await psycopg.AsyncConnection.connect(self.store.address) as connection:
            return sum(int(row[0]) for row in await (await connection.execute(_COUNT)).fetchall())

    async def timed(self, work: list[Coroutine[None, None, None]], found: Round) -> Round:
        """Do work all at once, and note how long it took and how much came into the store."""
        before, began = await self.checkpoints(), time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for each in work:
                tasks.create_task(each)
        found.seconds = time.perf_counter() - began
        await self.context.settled()
        await quiet()
        found.commits = await self.checkpoints() - before
        return found


def resident() -> int:
    """Return the bytes of memory that the process has, on Linux; 0 elsewhere."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * resource.getpagesize() if status.exists() else 0


async def fill(house: House, row: Row, plan: Plan, done: Callable[[], None]) -> None:
    """Give everybody a past, and note what the process holds of them afterwards."""
    names = iter([f"p{number}" for number in range(plan.participants)])

    async def writer() -> None:
        for name in names:
            await house.fill(name)
            done()

    async def warm(name: str) -> None:
        await house.fill(name)

    await house.timed([warm(f"warm {number}") for number in range(WRITERS)], Round())
    gc.collect()
    held, blocks = resident(), sys.getallocatedblocks()
    found = await house.timed([writer() for _ in range(WRITERS)], Round())
    gc.collect()
    row.rss_a_participant = (resident() - held) / plan.participants
    row.blocks_a_participant = (sys.getallocatedblocks() - blocks) / plan.participants
    row.fill_seconds, row.fill_commits = found.seconds, found.commits


async def saturate(house: House, plan: Plan, done: Callable[[], None]) -> Round:
    """Let the active take one turn after the other, all at once."""
    found = Round()

    async def person(name: str) -> None:
        for number in range(plan.turns):
            await house.turn(name, f"{name} asks, {number}", found)
            done()

    return await house.timed([person(f"p{number}") for number in range(plan.active)], found)


async def pace(house: House, plan: Plan, done: Callable[[], None]) -> Round:
    """Let each of the active take a turn at some time, so many in a second."""
    found, pick = Round(), random.Random(1)

    async def person(name: str, pause: float) -> None:
        await asyncio.sleep(pause)
        await house.turn(name, f"{name} asks, later", found)
        done()

    pauses = [pick.uniform(0, plan.active / plan.rate) for _ in range(plan.active)]
    return await house.timed([person(f"p{number}", pause) for number, pause in enumerate(pauses)], found)


async def measure(kind: str, folder: Path, server: str, plan: Plan, progress: Progress) -> Row:
    """Return what was measured of a kind of store."""
    row = Row(kind)

    def step(name: str, total: int) -> Callable[[], None]:
        task = progress.add_task(f"{kind}: {name}", total=total)
        return lambda: progress.advance(task)

    async with (
        opened(kind, f"load_{kind}", folder, server) as store,
        ContextManager(ScriptedModel(script=says(SUMMARY)), checkpointer=store.saver) as context,
    ):
        house = House(store, context)
        await fill(house, row, plan, step("known", plan.participants))
        row.saturated = await saturate(house, plan, step("all at once", plan.active * plan.turns))
        row.paced = await pace(house, plan, step("at random times", plan.active))
        row.records = len(context._participants.all())
    return row


def figures(found: Round) -> dict[str, str]:
    """Return the figures of a round as they are shown, by what they tell."""
    shown = {
        "turns, each one stored": f"{found.turns:,}",
        "turns/s": f"{found.turns / found.seconds:,.0f}",
        "commits/s": f"{found.commits / found.seconds:,.0f}",
        "commits that are missing": f"{max(0, found.turns - found.commits):,}",
        "failed": "\n".join(f"{count:,} {name}" for name, count in found.failures.items()) or "0",
    }
    for what, times in (("call → model request", found.waits_ms), ("call → stored", found.wholes_ms)):
        values = [f"{quantile(times, share):,.1f}" for share in (0.5, 0.95, 0.99)] if times else []
        shown[f"{what}, p50 / p95 / p99 ms"] = " / ".join(values)
    return shown


def tabulate(rows: list[Row], plan: Plan) -> Table:
    """Return what was measured as a table, a column for each saver."""
    table = Table(title=f"{plan.participants:,} participants known, {plan.active:,} active")
    table.add_column("what")
    for row in rows:
        table.add_column(row.saver, justify="right")
    known = {
        "commits/s while all get a past": [f"{row.fill_commits / row.fill_seconds:,.0f}" for row in rows],
        "bytes (RSS) an idle participant": [f"{row.rss_a_participant:,.0f}" for row in rows],
        "blocks an idle participant": [f"{row.blocks_a_participant:,.1f}" for row in rows],
        "records held at the end": [f"{row.records:,}" for row in rows],
    }
    for what, values in known.items():
        table.add_row(what, *values)
    for name, rounds in (
        ("all at once", [row.saturated for row in rows]),
        (f"at random times, {plan.rate:,.0f} a second", [row.paced for row in rows]),
    ):
        table.add_section()
        table.add_row(f"[bold]{name}[/bold]")
        shown = [figures(found) for found in rounds]
        for what in shown[0]:
            table.add_row(what, *(each[what] for each in shown))
    return table


def draw(rows: list[Row], plan: Plan, picture: Path) -> None:
    """Draw which share of the turns had its model request on its way after how long."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(9, 4.8))
    for row in rows:
        for found, style, name in ((row.paced, "-", "at random times"), (row.saturated, ":", "all at once")):
            times = sorted(found.waits_ms)
            shares = [(place + 1) / len(times) for place in range(len(times))]
            axes.plot(times, shares, style, color=COLORS[row.saver], label=f"{row.saver}, {name}")
    axes.set(
        xscale="log",
        xlabel="ms from call to model request",
        ylabel="share of the turns",
        title=f"{plan.active:,} active of {plan.participants:,} known",
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=3)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


def kept(row: Row) -> dict[str, Any]:
    """Return the figures of a row, with the percentiles in the place of all times."""
    found = asdict(row)
    for name in ("saturated", "paced"):
        for times in ("waits_ms", "wholes_ms"):
            values = found[name].pop(times)
            found[name][f"percentiles_of_{times}"] = [
                quantile(values, share / 100) for share in range(101) if values
            ]
    return found


async def run(plan: Plan) -> list[Row]:
    """Measure all kinds of stores."""
    with tempfile.TemporaryDirectory() as name, postgres(Path(name)) as server, shown_progress() as progress:
        return [await measure(kind, Path(name), server, plan, progress) for kind in KINDS]


def main() -> None:
    """Measure, print, write and draw."""
    picture, quick = arguments("load.png")
    plan = QUICK if quick else Plan()
    logging.getLogger("xr_ai_conversation").setLevel(logging.ERROR)
    rows = asyncio.run(run(plan))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(tabulate(rows, plan))
    draw(rows, plan, picture)
    path = written(picture, {"plan": asdict(plan), "rows": [kept(row) for row in rows]})
    console.print(f"drawn: {picture}; figures: {path}")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
