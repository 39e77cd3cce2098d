# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Let two hundred participants talk, interrupt, leave and come again in one routed house, and count what went wrong.

    uv run python benchmarks/soak.py [participants] [rounds]

Every round does as much as the first, for the same participant ids, so as much memory is to be held after the last
as after the first half. Once without and once with `record_interrupted`; some minutes each.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fakes.soak import Plan, Soak

PARTICIPANTS = 200
ROUNDS = 4
CONSOLE = Console()


def resident() -> int:
    """Return the bytes of memory that the process has, on Linux; 0 elsewhere."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * resource.getpagesize() if status.exists() else 0


async def soak(plan: Plan, rounds: int) -> tuple[Soak, list[tuple[int, int]]]:
    """Return the house after some rounds, and after each the blocks and the bytes of memory that were held."""
    held: list[tuple[int, int]] = []
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=CONSOLE) as progress:
        visits = progress.add_task("visits", total=rounds * plan.participants * plan.visits)
        async with Soak(plan) as house:
            for _ in range(rounds):
                await house.round(lambda: progress.advance(visits))
                gc.collect()
                held.append((sys.getallocatedblocks(), resident()))
    return house, held


def main() -> int:
    """Run both soaks and print what they counted; return how many faults there were."""
    given = [int(argument) for argument in sys.argv[1:]]
    participants, rounds = (*given, *(PARTICIPANTS, ROUNDS)[len(given) :])
    logging.getLogger("xr_ai_conversation").setLevel(
        logging.ERROR
    )  # sections over their budgets are meant here
    plans = [Plan(participants), Plan(participants, record_interrupted=True)]
    houses, memory = zip(*(asyncio.run(soak(plan, rounds)) for plan in plans), strict=True)
    table = Table("what", "interrupted answers dropped", "recorded", title=f"{participants} participants")
    for name in asdict(houses[0].counts):
        table.add_row(name.replace("_", " "), *(f"{getattr(house.counts, name):,}" for house in houses))
    for number in range(rounds):
        after = [held[number] for held in memory]
        table.add_row(f"blocks after round {number + 1}", *(f"{blocks:,}" for blocks, _ in after))
        table.add_row(f"MB after round {number + 1}", *(f"{size / 1e6:,.1f}" for _, size in after))
    if half := rounds // 2:
        for unit, what in enumerate(("blocks", "MB")):
            growth = [held[2 * half - 1][unit] / held[half - 1][unit] - 1 for held in memory]
            table.add_row(
                f"growth of {what}, round {half} to {2 * half}", *(f"{share:+.2%}" for share in growth)
            )
    CONSOLE.print(table)
    faults = [fault for house in houses for fault in house.faults]
    for fault in faults[:20]:
        CONSOLE.print(fault, markup=False)
    return len(faults)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
