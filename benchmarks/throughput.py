# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""How many turns and chunks a core carries while the model costs nothing, and where a turn's time goes."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import logging
import pstats
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fakes.chat import ScriptedModel, says
from rich.progress import Progress

from benchmarks.contenders import (
    ASKED,
    BARE,
    COLORS,
    CONTENDERS,
    OURS,
    Contender,
    Ours,
    quick_model,
    quick_summariser,
    taken,
)
from benchmarks.figures import Benchmark, Row, Rows, Step, Table, shown
from benchmarks.stores import stores
from xr_ai_conversation import Conversation
from xr_ai_conversation.xr import (
    VOICE_OUTPUT_TOPIC,
    Agent,
    AgentRuntime,
    AgentTurn,
    ResponseOutput,
    RuntimeContext,
    subscribe,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TURNS, CHUNKS, SHARE = "turns a second of one core", "chunks a second of one core", "share of a turn's time"
_PUBLISHED = "ours, published on a topic"
_PARTICIPANTS = 50
_CHUNKS = 1_000
_PARTS = (
    "xr_ai_conversation",
    "langgraph",
    "langchain_core",
    "pydantic",
    "pydantic_core",
    "fakes",
    "benchmarks",
)


class Ear(Agent):
    """Hears what is published."""

    @subscribe(VOICE_OUTPUT_TOPIC)
    async def output(self, message: ResponseOutput, context: RuntimeContext) -> None:
        """Hear a piece."""


class Published(Ours):
    """A conversation whose pieces are published on a topic of a runtime, and heard there."""

    def stream(self, participant: str, text: str) -> AsyncGenerator[str, None]:
        """Take a turn."""
        return self._answered(AgentTurn(participant, f"turn {time.perf_counter_ns()}", text))

    async def _answered(self, turn: AgentTurn) -> AsyncGenerator[str, None]:
        await self.talk.answer(turn)
        yield turn.text


async def turns(rounds: int, progress: Progress) -> list[Row]:
    """Let participants take a turn each, all at once, of one contender after the other."""
    rows = {who: Row(TURNS, "turns/s", {"who": who}, []) for who in CONTENDERS}
    async with stores("memory") as open_store, AsyncExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for who, opener in CONTENDERS.items():
            store = await stack.enter_async_context(open_store(who))
            opened = opener(quick_model(), quick_summariser(), store.saver)
            contenders[who] = await stack.enter_async_context(opened)
        for number in progress.track(range(rounds + 1), description="throughput: turns"):
            for who in random.Random(number).sample(list(rows), len(rows)):
                gc.collect()
                began = time.process_time()
                async with asyncio.TaskGroup() as tasks:
                    for person in range(_PARTICIPANTS):
                        tasks.create_task(taken(contenders[who], f"p{person}", f"{number}: {ASKED}"))
                await contenders[who].rest()
                if number:  # the first is for the caches
                    rows[who].values.append(_PARTICIPANTS / (time.process_time() - began))
    return list(rows.values())


async def chunks(rounds: int, progress: Progress) -> list[Row]:
    """Let contenders take turns whose answers have a thousand chunks."""
    async with stores("memory") as open_store, AsyncExitStack() as stack, AgentRuntime() as runtime:
        contenders: dict[str, Contender] = {}
        for who, opener in CONTENDERS.items():
            store = await stack.enter_async_context(open_store(who))
            model = ScriptedModel(script=says(*["word "] * _CHUNKS))
            opened = opener(model, quick_summariser(), store.saver)
            contenders[who] = await stack.enter_async_context(opened)
        mine = contenders[OURS]
        assert isinstance(mine, Ours)
        talk = Conversation(
            mine.model, context=mine.context, runtime=runtime, output_topic=VOICE_OUTPUT_TOPIC
        )
        contenders[_PUBLISHED] = Published(mine.model, mine.context, talk)
        rows = {who: Row(CHUNKS, "chunks/s", {"who": who}, []) for who in contenders}
        for number in progress.track(range(rounds + 1), description="throughput: chunks"):
            for who in random.Random(number).sample(list(rows), len(rows)):
                gc.collect()
                began = time.process_time()
                await taken(contenders[who], f"p{number}", ASKED)
                if number:
                    rows[who].values.append(_CHUNKS / (time.process_time() - began))
                await contenders[who].rest()
    return list(rows.values())


async def profile(count: int, progress: Progress) -> list[Row]:
    """Tell which packages take the time of our turns, by a profiler, which makes Python's own share look larger."""
    async with (
        stores("memory") as open_store,
        open_store("profile") as store,
        CONTENDERS[OURS](quick_model(), quick_summariser(), store.saver) as contender,
    ):
        await taken(contender, "ann", ASKED)
        profiler = cProfile.Profile()
        profiler.enable()
        for number in progress.track(range(count), description="throughput: profile"):
            await taken(contender, "ann", f"{number}: {ASKED}")
            await contender.rest()
        profiler.disable()
    times = _by_package(pstats.Stats(profiler))
    whole = sum(times.values())
    return [Row(SHARE, "", {"package": name}, [seconds / whole]) for name, seconds in times.most_common()]


def _by_package(stats: pstats.Stats) -> Counter[str]:
    """Return the seconds in each package's own code; what is written in C counts to who calls it."""
    found: Counter[str] = Counter()
    functions: dict[tuple[str, int, str], Any] = stats.stats  # type: ignore[attr-defined]
    for (path, _, _), (_, _, own, _, callers) in functions.items():
        if path != "~":
            found[_package(path)] += own
        else:
            for (caller, _, _), (_, _, inside, _) in callers.items():
                found[_package(caller)] += inside
    return found


def _package(path: str) -> str:
    parts = Path(path).resolve().parts
    if {"graph", "nodes", "state"} & set(parts[-2:-1]) and "langgraph" not in parts:
        return f"xr_ai_conversation, {parts[-2]}"
    named = [part for part in _PARTS if part in parts]
    if "checkpoint" in parts:
        return "langgraph, checkpoints"
    if named and named[0] in ("fakes", "benchmarks"):
        return "this benchmark"
    return named[0] if named else "asyncio" if "asyncio" in parts else "others"


def steps(quick: bool) -> Mapping[str, Step]:
    """Return what is to be measured."""
    logging.getLogger("xr_ai_conversation").setLevel(logging.ERROR)
    rounds = 2 if quick else 30
    return {
        "turns": partial(turns, rounds),
        "chunks": partial(chunks, rounds),
        "profile": partial(profile, 20 if quick else 500),
    }


def tables(rows: Rows) -> list[Table]:
    """Return the rates, and the profile."""
    rates = Table("What one core carries, with a model that costs nothing", ["who", TURNS, CHUNKS])
    for who in rows.each("who"):
        found = [rows.find(what, who=who) for what in (TURNS, CHUNKS)]
        rates.add(str(who), *(shown(row.median) if row else "" for row in found))
    where = Table("Where the time of a turn of ours goes, under a profiler", ["package", "share"])
    for row in rows.where(SHARE):
        where.add(str(row.of["package"]), f"{row.total:.0%}")
    return [rates, where]


def draw(rows: Rows, figure: Figure) -> None:
    """Draw the rates."""
    both: list[Axes] = list(figure.subplots(1, 2))
    for axes, what in zip(both, (TURNS, CHUNKS), strict=True):
        found = rows.where(what)
        names = [str(row.of["who"]) for row in found]
        colors = [COLORS.get(name, "tab:cyan") for name in names]
        axes.barh(names, [row.median for row in found], color=colors)
        axes.set(xlabel=what)
        axes.grid(alpha=0.3, axis="x")


THROUGHPUT = Benchmark(
    name="throughput",
    title="What one core carries",
    about=f"""Fifty participants take a turn each, all at once, of one contender after the other, with the saver in memory;
then answers of {_CHUNKS:,} chunks, {OURS} also published on a topic and heard there. Seconds are those of the processor.
{BARE.capitalize()} does what a turn cannot do without. The profile is of our turns from call to stored, background work
included.""",
    steps=steps,
    tables=tables,
    draw=draw,
)

__all__ = ["THROUGHPUT"]
