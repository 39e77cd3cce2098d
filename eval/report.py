# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What came of a run: graded, counted with intervals, as a table, as JSON and as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib import pyplot as plt
from rich.console import Console
from rich.table import Table

from eval.grading import Verdict, mean_interval, right, verdict, wilson
from eval.run import Answer, write_json

NOISE = (
    "Intervals are of 95 % (Wilson). Differences under about 6 points mean nothing, and those inside the intervals "
    "less: questions of one session share its summary."
)

WIDTH = 170
"""Columns of a table, where the terminal is no wider."""

_Key = TypeVar("_Key", bound=Hashable)


def share(hits: Iterable[bool]) -> dict[str, float]:
    """Return how many of some were hits: the share, its interval and the number."""
    found = list(hits)
    low, high = wilson(sum(found), len(found))
    return {"share": sum(found) / max(1, len(found)), "low": low, "high": high, "n": len(found)}


def measured(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return what is measured of answers to the same kind of question."""
    of_answers = Counter(verdict(a["answer"], a["current"], a["stale"]) for a in answers)
    of_prompts = [verdict(a["prompt"], a["current"], a["stale"]) for a in answers]
    mean, low, high = mean_interval([a["bytes"] for a in answers])
    return {
        "right": share(right(a["answer"], a["current"], a["stale"]) for a in answers),
        "stale": share(
            verdict(a["answer"], a["current"], a["stale"]) in (Verdict.STALE, Verdict.BOTH) for a in answers
        ),
        "abstains": share(
            verdict(a["answer"], a["current"], a["stale"]) is Verdict.ABSTAINS for a in answers
        ),
        "answers": {each.value: of_answers[each] for each in Verdict},
        "prompt has it": share(each in (Verdict.CURRENT, Verdict.BOTH) for each in of_prompts),
        "prompt misleads": share(each is Verdict.STALE for each in of_prompts),
        "bytes": {"mean": mean, "low": low, "high": high},
        "overruns": max((a.get("overruns", 0) for a in answers), default=0),
        "failures": max((a["failures"] for a in answers), default=0),
    }


def grouped(answers: Iterable[Answer], key: Callable[[Answer], _Key]) -> dict[_Key, list[Answer]]:
    """Return the answers by a key, in the order in which the keys come up."""
    groups: dict[_Key, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(key(answer), []).append(answer)
    return groups


_COLUMNS = {
    "right": "answer is right",
    "stale": "names the stale",
    "abstains": "says unknown",
    "prompt has it": "prompt shows it",
    "prompt misleads": "prompt: stale only",
}


def report(
    title: str,
    groups: dict[tuple[str, str], list[Answer]],
    folder: Path,
    *,
    setting: dict[str, Any],
    draw: Callable[[dict[tuple[str, str], dict[str, Any]], Path], None] | None = None,
) -> dict[tuple[str, str], dict[str, Any]]:
    """Print a table of groups of answers, and write it as JSON and as a picture.

    Args:
        title: Names the files too.
        groups: By group and memory.
        folder: Where the files go.
        setting: What the run was: model, budget and so on.
        draw: Draws another picture than bars.
    """
    rows = {key: measured(answers) for key, answers in groups.items()}
    table = Table("", "memory", "n", *_COLUMNS.values(), "bytes of prompt", title=title, caption=NOISE)
    for (group, memory), row in rows.items():
        cells = [percent(row[column]) for column in _COLUMNS]
        table.add_row(group, memory, str(row["right"]["n"]), *cells, spread(row["bytes"]))
    console = Console()
    Console(width=max(WIDTH, console.width)).print(table)
    folder.mkdir(parents=True, exist_ok=True)
    listed = [{"group": group, "memory": memory, **row} for (group, memory), row in rows.items()]
    write_json(folder / f"{title}.json", {"setting": setting, "note": NOISE, "rows": listed})
    (draw or bars)(rows, folder / f"{title}.png")
    return rows


def percent(found: dict[str, float]) -> str:
    """Return a share and its interval, as they are printed."""
    return f"{100 * found['share']:.0f} % [{100 * found['low']:.0f} to {100 * found['high']:.0f}]"


def spread(found: dict[str, float], digits: int = 0) -> str:
    """Return a mean and its interval, as they are printed."""
    return f"{found['mean']:,.{digits}f} ± {found['high'] - found['mean']:,.{digits}f}"


def bars(rows: dict[tuple[str, str], dict[str, Any]], picture: Path) -> None:
    """Draw, of each group, the share of right answers and of prompts that show what is asked, with intervals."""
    mpl.use("agg")
    figure, axes = plt.subplots(figsize=(9, 0.36 * len(rows) + 1.6))
    places = range(len(rows), 0, -1)
    for offset, column, color in ((0.16, "right", "tab:blue"), (-0.16, "prompt has it", "tab:gray")):
        found = [row[column] for row in rows.values()]
        shares = [100 * each["share"] for each in found]
        spread = [
            [100 * (e["share"] - e["low"]) for e in found],
            [100 * (e["high"] - e["share"]) for e in found],
        ]
        axes.barh(
            [place + offset for place in places],
            shares,
            height=0.32,
            xerr=spread,
            color=color,
            ecolor="black",
            error_kw={"linewidth": 0.8, "capsize": 2},
            label=_COLUMNS[column],
        )
    axes.set_yticks(list(places), [f"{group}, {memory}" for group, memory in rows], fontsize=8)
    axes.set(xlim=(0, 100), xlabel="%")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.6 / max(2, len(rows))), ncols=2, fontsize=8)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def summaries_since(answer: Answer) -> str:
    """Return how many summaries were made since what is asked for was said, in classes."""
    made = answer["compactions"]
    return next(name for limit, name in _CLASSES if made <= limit) + " summaries since"


_CLASSES = ((0, "0"), (1, "1"), (3, "2 or 3"), (6, "4 to 6"), (float("inf"), "7 or more"))


def recall(rows: dict[tuple[str, str], dict[str, Any]], picture: Path) -> None:
    """Draw the share of right answers, and of prompts that show what is asked, against the distance in turns."""
    mpl.use("agg")
    figure, both = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    memories = list(dict.fromkeys(memory for _, memory in rows))
    for axes, column in zip(both, ("right", "prompt has it"), strict=True):
        for number, memory in enumerate(memories):
            points = sorted(
                (int(group), row[column]) for (group, name), row in rows.items() if name == memory
            )
            places = [distance * (1 + 0.03 * number) for distance, _ in points]
            shares = [100 * each["share"] for _, each in points]
            spread = [
                [100 * (each["share"] - each["low"]) for _, each in points],
                [100 * (each["high"] - each["share"]) for _, each in points],
            ]
            axes.errorbar(places, shares, yerr=spread, marker="o", markersize=4, capsize=2, label=memory)
        ticks = sorted({int(group) for group, _ in rows})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set(xlabel="turns since it was said", title=_COLUMNS[column], ylim=(-3, 103))
    both[0].set_ylabel("%")
    both[1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def draw_retention(rows: Sequence[dict[str, Any]], picture: Path) -> None:
    """Draw, of each memory, how often the evidence and the words of the answer stand in the prompt, by its budget."""
    mpl.use("agg")
    figure, both = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
    for axes, column, title in zip(
        both, ("evidence", "words"), ("the evidence, word for word", "all words of the answer"), strict=True
    ):
        for memory in dict.fromkeys(row["memory"] for row in rows):
            found = [row for row in rows if row["memory"] == memory]
            shares = [100 * row[column]["share"] for row in found]
            errors = [
                [100 * (row[column]["share"] - row[column]["low"]) for row in found],
                [100 * (row[column]["high"] - row[column]["share"]) for row in found],
            ]
            axes.errorbar(
                [row["budget"] for row in found], shares, yerr=errors, marker="o", capsize=2, label=memory
            )
        axes.set(xlabel="bytes of prompt", title=f"the prompt has {title}", ylim=(-3, 103))
    both[0].set_ylabel("% of the questions")
    both[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
    plt.close(figure)


__all__ = [
    "NOISE",
    "WIDTH",
    "bars",
    "draw_retention",
    "grouped",
    "measured",
    "percent",
    "recall",
    "report",
    "share",
    "spread",
    "summaries_since",
]
