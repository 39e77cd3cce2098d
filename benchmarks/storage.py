# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a participant takes, on disk and in memory, and how long a commit takes, from the first exchange to ten thousand."""

from __future__ import annotations

import gc
import logging
import random
import time
import tracemalloc
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from benchmarks.contenders import (
    ASKED,
    BARE,
    COLORS,
    CONTENDERS,
    LANGCHAIN,
    LANGMEM,
    OURS,
    SAID,
    Contender,
    Ours,
    quick_model,
    quick_summariser,
    taken,
)
from benchmarks.figures import Benchmark, Goal, Of, Row, Rows, Step, Table, ratio, shown
from benchmarks.stores import KINDS, Store, stores
from xr_ai_conversation.graph.stores import store_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STORED, REWRITTEN, IDENTITIES = "bytes stored", "bytes stored, after VACUUM FULL", "bytes of identities"
COMMIT, TURN, PRUNING = "a commit", "a whole turn", "a pruning in the background"
HELD = "bytes of memory a participant"

_LIVE = 200
"""How many of the last exchanges of a past of ours are turns; those before come as a router's history."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    pasts: Mapping[str, tuple[int, ...]]
    """Exchanges after which a participant of each contender is looked at."""
    samples: int
    """Turns that are timed after each past."""
    participants: tuple[int, ...]
    """How many have a past of one exchange when memory is looked at."""


FULL = Plan(
    pasts={
        OURS: (1, 10, 100, 300, 1_000, 10_000),
        LANGCHAIN: (1, 10, 100, 300, 1_000),
        LANGMEM: (1, 10, 100, 300),
    },
    samples=60,
    participants=(1, 10, 100, 1_000, 10_000),
)
QUICK = Plan(pasts={OURS: (1, 50), LANGCHAIN: (1, 50), LANGMEM: (1, 50)}, samples=4, participants=(1, 50))


async def fill(contender: Contender, participant: str, exchanges: int) -> None:
    """Give a participant a past, in turns; of ours only the last of them are, since that is as well."""
    early = max(0, exchanges - _LIVE) if isinstance(contender, Ours) else 0
    if early:
        await contender.fill(participant, early)
    for number in range(early, exchanges):
        await taken(contender, participant, f"{number}: {ASKED}")
        await contender.rest()


async def weigh(contender: Contender, store: Store, of: Of) -> list[Row]:
    """Return what a store holds, which so far is one participant."""
    rows = [Row(STORED, "bytes", of, [float(await store.size())])]
    if await store.vacuum(full=True):
        rows.append(Row(REWRITTEN, "bytes", of, [float(await store.size())]))
    if isinstance(contender, Ours):
        found: Any = (await store_of(store.saver).head("p0", "archive")).value  # Any: plain JSON
        archived = found["identities"] if found else ""
        known = len((await contender.context.snapshot("p0"))["identities"]) + len(archived)
        rows.append(Row(IDENTITIES, "bytes", of, [float(known)]))
    return rows


@dataclass(slots=True)
class Sampled:
    """A contender whose participants have a past of some length, and how long it takes."""

    contender: Contender
    people: int
    """How many share the samples, so that the past of each stays about as long as it is."""
    commits: Row
    turns: Row
    prunings: Row

    async def sample(self, number: int) -> None:
        """Time a turn, and of ours a commit."""
        name = f"p{number % self.people}"
        self.turns.values.append((await taken(self.contender, name, f"{number}, asked: {ASKED}")).whole_ms)
        await self._rest()
        if isinstance(self.contender, Ours):
            began = time.perf_counter()
            await self.contender.context.record_exchange(name, f"{number}, noted: {ASKED}", SAID)
            self.commits.values.append((time.perf_counter() - began) * 1e3)
            await self._rest()

    async def _rest(self) -> None:
        if took := await self.contender.rest():
            self.prunings.values.append(took)


async def lengths(kind: str, plan: Plan, progress: Progress) -> list[Row]:
    """Fill a store for each contender and length of past, weigh it, and let all take their turns in turn."""
    rows: list[Row] = []
    found: list[Sampled] = []
    async with stores(kind) as open_store, AsyncExitStack() as stack:
        wanted = [(who, past) for who in CONTENDERS for past in plan.pasts.get(who, ())]
        for number, (who, past) in enumerate(progress.track(wanted, description=f"storage: {kind}, pasts")):
            store = await stack.enter_async_context(open_store(f"store_{number}"))
            opener = CONTENDERS[who](quick_model(), quick_summariser(), store.saver)
            contender = await stack.enter_async_context(opener)
            of: Of = {"who": who, "saver": kind, "exchanges": past}
            people = max(1, min(plan.samples, plan.samples // (2 * past)))
            for person in range(people):
                await fill(contender, f"p{person}", past)
                if person == 0:
                    rows += await weigh(contender, store, of)
            timed = [Row(what, "ms", of, []) for what in (COMMIT, TURN, PRUNING)]
            found.append(Sampled(contender, people, *timed))
            rows += timed
        gc.collect()
        gc.freeze()
        for number in progress.track(range(plan.samples), description=f"storage: {kind}, turns"):
            random.Random(number).shuffle(found)
            for each in found:
                await each.sample(number)
        gc.unfreeze()
    return [row for row in rows if row.values]


async def memory(who: str, kind: str, participants: tuple[int, ...], progress: Progress) -> list[Row]:
    """Count the memory of participants with a past of one exchange, who are idle."""
    rows: list[Row] = []
    model = quick_model()
    async with (
        stores(kind) as open_store,
        open_store("memory") as store,
        CONTENDERS[who](model, quick_summariser(), store.saver) as contender,
    ):
        await taken(contender, "warm", ASKED)
        await contender.rest()
        gc.collect()
        tracemalloc.start()
        for number in progress.track(
            range(max(participants)), description=f"storage: memory of {who}, {kind}"
        ):
            await taken(contender, f"p{number}", ASKED)
            await contender.rest()
            contender.model.messages = []
            model.requests.clear()
            if number + 1 in participants:
                gc.collect()
                held = tracemalloc.get_traced_memory()[0] / (number + 1)
                rows.append(
                    Row(HELD, "bytes", {"who": who, "saver": kind, "participants": number + 1}, [held])
                )
        tracemalloc.stop()
    return rows


def steps(quick: bool) -> Mapping[str, Step]:
    """Return what is to be measured."""
    logging.getLogger("xr_ai_conversation").setLevel(logging.ERROR)
    plan = QUICK if quick else FULL
    wanted = {kind: partial(lengths, kind, plan) for kind in KINDS}
    for kind, who in product(KINDS[:2], CONTENDERS):
        if who != BARE:
            most = 1_000 if kind == "sqlite" and who != OURS else max(plan.participants)
            counts = tuple(count for count in plan.participants if count <= most)
            wanted[f"memory of {who}, {kind}"] = partial(memory, who, kind, counts)
    return wanted


def _each(row: Row | None) -> str:
    return shown(row.median) if row else ""


def tables(rows: Rows) -> list[Table]:
    """Return what a past takes, and what a participant does."""
    sizes = Table(
        "One participant: bytes, and times in ms with a model that takes none",
        ["saver", "exchanges", "who", "bytes", "after VACUUM FULL", "identities", "commit p50", "p95",
         "pruning p50", "whole turn p50", "p95", f"bytes / {LANGCHAIN}", f"turn / {LANGCHAIN}"],
    )  # fmt: skip
    for turn in rows.where(TURN):
        of = turn.of
        peer = {**of, "who": LANGCHAIN}
        commit = rows.find(COMMIT, **of)
        sizes.add(
            str(of["saver"]), f"{of['exchanges']:,}", str(of["who"]), _each(rows.find(STORED, **of)),
            _each(rows.find(REWRITTEN, **of)), _each(rows.find(IDENTITIES, **of)), _each(commit),
            shown(commit.quantile(0.95)) if commit else "", _each(rows.find(PRUNING, **of)), shown(turn.median),
            shown(turn.quantile(0.95)), ratio(rows.find(STORED, **of), rows.find(STORED, **peer)),
            ratio(turn, rows.find(TURN, **peer)),
        )  # fmt: skip
    counts = rows.each("participants")
    held = Table(
        "Bytes of memory in the process for each participant, after one exchange",
        ["saver", "who", *(f"of {count:,}" for count in counts)],
    )
    for saver in rows.each("saver"):
        for who in rows.each("who"):
            if rows.where(HELD, saver=saver, who=who):
                found = (rows.find(HELD, saver=saver, who=who, participants=count) for count in counts)
                held.add(str(saver), str(who), *map(_each, found))
    return [sizes, held]


def draw(rows: Rows, figure: Figure) -> None:
    """Draw bytes and turns against the exchanges, and memory against the participants."""
    sizes: Axes
    times: Axes
    held: Axes
    sizes, times, held = figure.subplots(1, 3)
    styles = dict(zip(KINDS, ("o:", "o-", "x--"), strict=True))
    for who, color in COLORS.items():
        for kind, style in styles.items():
            for axes, what, across in (
                (sizes, STORED, "exchanges"),
                (times, TURN, "exchanges"),
                (held, HELD, "participants"),
            ):
                found = rows.where(what, who=who, saver=kind)
                axes.plot(
                    [int(row.of[across]) for row in found],
                    [row.median for row in found],
                    style,
                    color=color,
                    markersize=4,
                    label=f"{who}, {kind}" if found else None,
                )
    sizes.set(xscale="log", yscale="log", xlabel="exchanges", title="bytes stored of a participant")
    times.set(xscale="log", yscale="log", xlabel="exchanges", title="a whole turn, ms, median")
    held.set(xscale="log", yscale="log", xlabel="participants", title="bytes of memory for each")
    for axes in (sizes, times, held):
        axes.grid(alpha=0.3)
    times.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=3)


def goals(rows: Rows) -> list[Goal]:
    """Return what was meant to be reached."""
    found = []
    for kind in KINDS:
        early, late = (rows.find(COMMIT, saver=kind, exchanges=past) for past in (100, 10_000))
        if early and late:
            what = f"a commit at exchange 10,000 / at 100, {kind}"
            found.append(Goal(what, late.median / early.median, 1.3))
    if held := rows.find(HELD, saver="memory", who=OURS, participants=10_000):
        found.append(Goal("bytes of memory a participant, of 10,000, text included", held.total, 15_000))
    mine, peer = (rows.find(STORED, saver="sqlite", exchanges=1_000, who=who) for who in (OURS, LANGCHAIN))
    if mine and peer:
        what = f"bytes in a SQLite file after 1,000 exchanges, ours / {LANGCHAIN}"
        found.append(Goal(what, mine.median / peer.median, 1 / 20))
    return found


STORAGE = Benchmark(
    name="storage",
    title="What is stored, and how long that takes",
    about="""Every length of past has a store of its own and takes its turns in turn with the others, while nothing runs in
the background, with a fake model that answers at once. SQLite's bytes are those of the file and its write-ahead log,
PostgreSQL's those of the tables with their indexes, which hold rows that are gone until they are vacuumed. The peers are
measured as far as is done in minutes: their files grow with every turn, and langmem's turns become slower. Memory is
what Python has allocated for participants who had one exchange each: with the saver in memory what it stores is part of
it, with SQLite it is only what the process itself holds, of the peers' participants up to 1,000.""",
    steps=steps,
    tables=tables,
    draw=draw,
    goals=goals,
)

__all__ = ["STORAGE"]
