# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What came of a run, graded and counted with intervals: rows that are kept as JSON and shown as tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from eval.grading import Verdict, mean_interval, right, verdict, wilson
from eval.run import Answer

Row: TypeAlias = dict[str, Any]
"""Cells by column; a cell is a text, a count, or what `share` or `mean` return."""

Of = TypeVar("Of", bound=Hashable)

RIGHT = "right"
SHOWN = "prompt has it"


def share(hits: Iterable[bool]) -> dict[str, float]:
    """Return how many of some were hits: the share, its interval and the number."""
    found = list(hits)
    low, high = wilson(sum(found), len(found))
    return {"share": sum(found) / max(1, len(found)), "low": low, "high": high, "n": len(found)}


def mean(values: Sequence[float]) -> dict[str, float]:
    """Return the mean of some values, its interval and the number."""
    middle, low, high = mean_interval(values)
    return {"mean": middle, "low": low, "high": high, "n": len(values)}


def measured(answers: Sequence[Answer]) -> Row:
    """Return what is measured of answers to the same kind of question."""
    of_answers = [verdict(each["answer"], each["current"], each["stale"]) for each in answers]
    of_prompts = [verdict(each["prompt"], each["current"], each["stale"]) for each in answers]
    return {
        "n": len(answers),
        RIGHT: share(right(each["answer"], each["current"], each["stale"]) for each in answers),
        "names the stale": share(each in (Verdict.STALE, Verdict.BOTH) for each in of_answers),
        "makes one up": share(each is Verdict.OTHER for each in of_answers),
        "says unknown": share(each is Verdict.ABSTAINS for each in of_answers),
        SHOWN: share(each in (Verdict.CURRENT, Verdict.BOTH) for each in of_prompts),
        "prompt has only the stale": share(each is Verdict.STALE for each in of_prompts),
        "bytes of prompt": mean([each["bytes"] for each in answers]),
    }


def grouped(answers: Iterable[Answer], key: Callable[[Answer], Of]) -> dict[Of, list[Answer]]:
    """Return the answers by a key, in the order in which the keys come up."""
    groups: dict[Of, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(key(answer), []).append(answer)
    return groups


def rows_of(answers: Sequence[Answer], column: str, key: Callable[[Answer], str | int]) -> list[Row]:
    """Return a row of what is measured for each group of answers and each memory.

    Args:
        answers: Of a run.
        column: What the groups are.
        key: Tells the group of an answer.
    """
    groups = grouped(answers, lambda answer: (key(answer), answer["memory"]))
    return [{column: group, "memory": memory, **measured(found)} for (group, memory), found in groups.items()]


def cell(value: Any) -> str:
    """Return a cell as it is read: what was counted and, of a share or a mean, its interval."""
    if not isinstance(value, dict):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if "share" in value:
        return f"{100 * value['share']:.0f} % [{100 * value['low']:.0f} to {100 * value['high']:.0f}]"
    digits = 2 if value["mean"] < 10 else 0
    return f"{value['mean']:,.{digits}f} ± {value['high'] - value['mean']:,.{digits}f}"


def save(path: Path, about: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Write the rows, and what they were measured with and on."""
    text = json.dumps({"measured": dict(about), "rows": list(rows)}, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", "utf-8")


def load(path: Path) -> tuple[dict[str, str], list[Row]]:
    """Return what rows were measured with and on, and the rows."""
    found = json.loads(path.read_text("utf-8"))
    return found["measured"], found["rows"]


__all__ = [
    "RIGHT",
    "SHOWN",
    "Row",
    "cell",
    "grouped",
    "load",
    "mean",
    "measured",
    "rows_of",
    "save",
    "share",
]
