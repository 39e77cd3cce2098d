# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is measured, in the one shape in which it is kept, shown and drawn."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_VALUES = 400
"""Of more than so many values only their percentiles are kept."""


Of: TypeAlias = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Row:
    """All values of one thing that was measured."""

    what: str
    unit: str
    of: Of
    """Of whom and under which circumstances: what tells this row from others of the same thing."""
    values: list[float]

    @property
    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.values)

    @property
    def total(self) -> float:
        """Return the sum."""
        return sum(self.values)

    def quantile(self, share: float) -> float:
        """Return a quantile."""
        return sorted(self.values)[int(share * (len(self.values) - 1))]


Step: TypeAlias = Callable[[Progress], Coroutine[Any, Any, list[Row]]]
"""Measures something, in one go, and shows how far it is."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What was measured by a benchmark."""

    all: Sequence[Row]

    def where(self, what: str, **of: str | int) -> list[Row]:
        """Return the rows of one thing, with some of their circumstances."""
        return [row for row in self.all if row.what == what and of.items() <= row.of.items()]

    def find(self, what: str, **of: str | int) -> Row | None:
        """Return the one row of one thing under some circumstances, if it was measured."""
        found = self.where(what, **of)
        if len(found) > 1:
            raise LookupError(f"{len(found)} rows of {what!r} with {of}")
        return found[0] if found else None

    def each(self, key: str) -> list[str | int]:
        """Return all values of a circumstance, in the order in which they were measured."""
        return list(dict.fromkeys(row.of[key] for row in self.all if key in row.of))


@dataclass(slots=True)
class Table:
    """Figures as they are read, in a terminal and on a page."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(cells)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure was meant to be, and is."""

    what: str
    value: float
    limit: float
    at_least: bool = False
    """The limit is the least that it should be, and not the most."""

    @property
    def met(self) -> bool:
        """Tell whether it is what it was meant to be."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One question, how it is measured, and how the answer is shown."""

    name: str
    title: str
    about: str
    """What is measured and how, for the page; a paragraph or two of Markdown."""
    steps: Callable[[bool], Mapping[str, Step]]
    """Returns what is to be measured, piece by piece; True is a quick look. A piece that was measured is not again."""
    tables: Callable[[Rows], Iterable[Table]]
    draw: Callable[[Rows, Figure], None]
    goals: Callable[[Rows], Iterable[Goal]] = lambda _: ()


def load(path: Path) -> dict[str, list[Row]]:
    """Return what was measured, by step; empty if nothing was."""
    if not path.exists():
        return {}
    steps = json.loads(path.read_text())["steps"]
    return {name: [Row(**row) for row in rows] for name, rows in steps.items()}


def measured_on(path: Path) -> str:
    """Return when, and on what, it was measured."""
    return "; ".join(json.loads(path.read_text())["measured"].values())


def save(path: Path, measured: Mapping[str, str], steps: Mapping[str, Sequence[Row]]) -> None:
    """Write what was measured; on Linux and macOS it is there whole or not at all."""
    found = {
        "measured": dict(measured),
        "steps": {name: [_kept(row) for row in rows] for name, rows in steps.items()},
    }
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(found) + "\n")
    unfinished.replace(path)


def _kept(row: Row) -> dict[str, Any]:
    values = row.values
    if len(values) > _MOST_VALUES:
        values = [row.quantile(share / 100) for share in range(101)]
    return {**asdict(row), "values": [float(f"{value:.5g}") for value in values]}


def shown(value: float | None, unit: str = "") -> str:
    """Return a figure as it is read, with three digits or, if it is large, all before the point."""
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 or value == int(value) else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}{unit}"


def pooled(rows: Sequence[Row]) -> Row:
    """Return the values of all rows as one."""
    return Row(rows[0].what, rows[0].unit, {}, [value for row in rows for value in row.values])


def ratio(one: Row | None, other: Row | None) -> str:
    """Return how many times the median of another row the median of one is."""
    return shown(one.median / other.median) if one and other and other.median else ""


__all__ = [
    "Benchmark",
    "Goal",
    "Of",
    "Row",
    "Rows",
    "Step",
    "Table",
    "load",
    "measured_on",
    "pooled",
    "ratio",
    "save",
    "shown",
]
