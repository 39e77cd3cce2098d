# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure what is not measured yet, and make the page.

uv run --group peers python -m benchmarks [NAME…] [--quick] [--again] [--to FOLDER]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from benchmarks.figures import Benchmark, Rows, load, save
from benchmarks.first_token import FIRST_TOKEN
from benchmarks.latency import LATENCY
from benchmarks.load import LOAD
from benchmarks.models import model_name
from benchmarks.page import draw, here, in_terminal, write
from benchmarks.session import SESSION
from benchmarks.soak import SOAK
from benchmarks.storage import STORAGE
from benchmarks.throughput import THROUGHPUT

ALL = {each.name: each for each in (LATENCY, SESSION, FIRST_TOKEN, STORAGE, LOAD, THROUGHPUT, SOAK)}
_PACKAGES = ("langgraph", "langchain", "langchain-core", "langmem", "xllamacpp")


def measure(benchmark: Benchmark, folder: Path, *, quick: bool, again: bool) -> Rows:
    """Measure what is not measured yet of a benchmark; what was is kept, also if it is broken off.

    Args:
        benchmark: Which.
        folder: Where its figures and its picture are.
        quick: A quick look.
        again: Measure anew what was measured before.
    """
    path = folder / f"{benchmark.name}.json"
    done = {} if again else load(path)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for name, step in benchmark.steps(quick).items():
            if name not in done:
                if not progress.console.is_terminal:
                    progress.console.print(f"{benchmark.name}: {name}")
                done[name] = asyncio.run(step(progress))
                save(path, here(_PACKAGES) | {"model": model_name()}, done)
    rows = Rows([row for found in done.values() for row in found])
    if rows.all:
        draw(benchmark, rows, path.with_suffix(".png"))
    return rows


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", type=click.Choice(list(ALL)))
@click.option("--quick", is_flag=True, help="Measure little, in two minutes, into a folder of its own.")
@click.option("--again", is_flag=True, help="Measure anew what was measured before.")
@click.option(
    "--to", type=click.Path(path_type=Path), help="Where the page goes; docs, if it is not --quick."
)
def main(names: tuple[str, ...], quick: bool, again: bool, to: Path | None) -> None:
    """Measure what is not measured yet, show it, and make the page: of all benchmarks, or of some."""
    folder = to or (Path(tempfile.mkdtemp(prefix="benchmarks-")) if quick else Path("docs"))
    (folder / "benchmarks").mkdir(parents=True, exist_ok=True)
    console = Console(width=None if sys.stdout.isatty() else 160)
    for name in names or ALL:
        rows = measure(ALL[name], folder / "benchmarks", quick=quick, again=again)
        for table in ALL[name].tables(rows) if rows.all else ():
            console.print(in_terminal(table))
    console.print(f"written: {write(list(ALL.values()), folder)}")


if __name__ == "__main__":
    main()
