# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Two hundred participants talk, interrupt, leave and come again in one routed house, and what went wrong is counted."""

from __future__ import annotations

import gc
import logging
import resource
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fakes.soak import Plan, Soak
from rich.progress import Progress

from benchmarks.figures import Benchmark, Goal, Of, Row, Rows, Step, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNT, FAULTS, BLOCKS, RESIDENT = "count", "faults", "blocks of memory", "bytes of memory (RSS)"
_DROPPED, _RECORDED = "dropped", "recorded"


def resident() -> int:
    """Return the bytes of memory that the process has, on Linux; 0 elsewhere."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * resource.getpagesize() if status.exists() else 0


async def soak(when: str, participants: int, rounds: int, progress: Progress) -> list[Row]:
    """Return the counts of a house after some rounds, and after each the memory that was held."""
    of: Of = {"interrupted": when}
    held = Row(BLOCKS, "blocks", of, []), Row(RESIDENT, "bytes", of, [])
    plan = Plan(participants, record_interrupted=when == _RECORDED)
    visits = progress.add_task(f"soak: {when}", total=rounds * participants * plan.visits)
    async with Soak(plan) as house:
        for _ in range(rounds):
            await house.round(lambda: progress.advance(visits))
            gc.collect()
            held[0].values.append(sys.getallocatedblocks())
            held[1].values.append(resident())
    for fault in house.faults[:20]:
        progress.console.print(fault, markup=False)
    counts = [
        Row(COUNT, "", {**of, "of": name}, [float(value)]) for name, value in asdict(house.counts).items()
    ]
    return [*held, *counts, Row(FAULTS, "", of, [float(len(house.faults))])]


def steps(quick: bool) -> Mapping[str, Step]:
    """Return what is to be measured."""
    logging.getLogger("xr_ai_conversation").setLevel(logging.ERROR)
    participants, rounds = (6, 2) if quick else (200, 4)
    return {when: partial(soak, when, participants, rounds) for when in (_DROPPED, _RECORDED)}


def tables(rows: Rows) -> list[Table]:
    """Return what was counted."""
    table = Table("Counted", ["what", *(f"interrupted answers {when}" for when in rows.each("interrupted"))])
    for name in rows.each("of"):
        table.add(str(name).replace("_", " "), *(f"{row.total:,.0f}" for row in rows.where(COUNT, of=name)))
    for what in (FAULTS, BLOCKS, RESIDENT):
        found = [", ".join(f"{value:,.0f}" for value in row.values) for row in rows.where(what)]
        table.add(f"{what}, after each round" if what != FAULTS else what, *found)
    return [table]


def draw(rows: Rows, figure: Figure) -> None:
    """Draw the memory that was held after each round."""
    axes = figure.subplots()
    for row in rows.where(BLOCKS):
        rounds = range(1, 1 + len(row.values))
        axes.plot(rounds, row.values, "o-", label=f"interrupted answers {row.of['interrupted']}")
    axes.set(xlabel="round", ylabel=BLOCKS, ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()


def goals(rows: Rows) -> list[Goal]:
    """Return what was meant to be reached."""
    return [
        Goal(f"faults, interrupted answers {row.of['interrupted']}", row.total, 0)
        for row in rows.where(FAULTS)
    ]


SOAK = Benchmark(
    name="soak",
    title="A routed house under load",
    about="""People talk, are interrupted, leave and come again as somebody else, in one house with a router. Each has a
secret word, and each turn a token, so that whatever is heard, sent to a model or stored tells whose it is and how often it
is there. Every round does as much as the first, so as much memory is to be held after the last.""",
    steps=steps,
    tables=tables,
    draw=draw,
    goals=goals,
)

__all__ = ["SOAK"]
