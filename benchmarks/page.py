# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The page: all that was measured, in tables and pictures; no figure on it comes from elsewhere."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from matplotlib.figure import Figure
from rich.table import Table as Shown

from benchmarks.figures import Benchmark, Rows, Table, load, measured_on, shown

_HEAD = """# Benchmarks

What it costs, beside others, on one small machine that had other work as well: trust the ratios, which are of one run,
more than the times. All of it is measured again, and this page made of it, by

    uv run --group peers python -m benchmarks --again

or a part, by its name. `--quick` takes two minutes, for a look. Another model than the embedded one is named by
`OPENAI_MODEL`, `OPENAI_BASE_URL` and `OPENAI_API_KEY`.
"""


def in_terminal(table: Table) -> Shown:
    """Return a table as it is shown in a terminal."""
    found = Shown(title=table.title, title_justify="left")
    for number, name in enumerate(table.columns):
        found.add_column(name, justify="right" if number else "left")
    for cells in table.rows:
        found.add_row(*cells)
    return found


def here(packages: Iterable[str]) -> dict[str, str]:
    """Return when, and on what, something is measured now: the date, the machine, and those of the packages that are there."""
    found = [f"{name} {version(name)}" for name in packages if find_spec(name.replace("-", "_"))]
    return {
        "date": f"{datetime.now().astimezone():%Y-%m-%d}",
        "machine": f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
        "packages": ", ".join(found),
    }


def draw(benchmark: Benchmark, rows: Rows, path: Path) -> None:
    """Draw a benchmark's picture."""
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    benchmark.draw(rows, figure)
    figure.savefig(path, dpi=100)


def write(benchmarks: Sequence[Benchmark], folder: Path) -> Path:
    """Write the page of all benchmarks that were measured, and return where it is.

    Args:
        benchmarks: In the order in which they are told.
        folder: Where the page goes; figures and pictures are in its folder `benchmarks`.
    """
    measured = [
        (each, Rows([row for rows in steps.values() for row in rows]))
        for each in benchmarks
        if (steps := load(folder / "benchmarks" / f"{each.name}.json"))
    ]
    parts = [_HEAD, _goals(measured)]
    for each, rows in measured:
        measured_with = f"Measured {measured_on(folder / 'benchmarks' / f'{each.name}.json')}."
        parts += [
            f"## {each.title}",
            each.about,
            measured_with,
            f"![{each.title}](benchmarks/{each.name}.png)",
        ]
        parts += [_titled(table) for table in each.tables(rows)]
    page = folder / "benchmarks.md"
    page.write_text("\n\n".join(part.strip() for part in parts) + "\n")
    return page


def _goals(measured: Iterable[tuple[Benchmark, Rows]]) -> str:
    table = Table("What was to be reached", ["what", "measured", "goal", "reached"])
    for each, rows in measured:
        for goal in each.goals(rows):
            bound = f"{'at least' if goal.at_least else 'at most'} {shown(goal.limit)}"
            table.add(goal.what, shown(goal.value), bound, "yes" if goal.met else "no")
    return _titled(table)


def _titled(table: Table) -> str:
    return f"**{table.title}**\n\n{markdown(table.columns, table.rows)}"


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return cells as a table of Markdown; the first column names what the others have figures of."""
    lines = [columns, ["---", *("---:" for _ in columns[1:])], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


__all__ = ["draw", "here", "in_terminal", "markdown", "write"]
