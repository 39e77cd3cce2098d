# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of what came of a run, with the intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.dialogues import EVIDENCE, WORDS
from eval.report import RIGHT, SHOWN, Row


def bars(rows: Sequence[Row]) -> Figure:
    """Draw a group of bars for each first cell of the rows: one for each memory, or one where there are none."""
    column = next(iter(rows[0]))
    groups = list(dict.fromkeys(row[column] for row in rows))
    measures = [name for name in (RIGHT, SHOWN, "kept") if name in rows[0]]
    figure = Figure(figsize=(12, 0.09 * len(rows) + 0.3 * len(groups) + 1.5), layout="constrained")
    for axes, measure in zip(_side_by_side(figure, len(measures)), measures, strict=True):
        memories = list(dict.fromkeys(row.get("memory", "") for row in rows))
        height = 0.8 / len(memories)
        for number, memory in enumerate(memories):
            found = [row for row in rows if row.get("memory", "") == memory]
            places = [
                groups.index(row[column]) + height * (number - (len(memories) - 1) / 2) for row in found
            ]
            axes.barh(
                places,
                [100 * row[measure]["share"] for row in found],
                height=height,
                xerr=_errors(found, measure),
                ecolor="black",
                error_kw={"linewidth": 0.8, "capsize": 2},
                label=memory,
            )
        axes.set_yticks(range(len(groups)), [str(group) for group in groups])
        axes.set(xlim=(0, 100), title=measure, xlabel="%")
    figure.axes[0].invert_yaxis()
    _legend(figure, memories)
    return figure


def recall(rows: Sequence[Row]) -> Figure:
    """Draw the share of right answers, where any were asked for, and of prompts that show what is asked, by distance."""
    measures = [name for name in (RIGHT, SHOWN) if name in rows[0]]
    figure = _lines([(measure, rows, measure) for measure in measures], "turns since")
    for axes in figure.axes:
        ticks = sorted({row["turns since"] for row in rows})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
    return figure


def retention(rows: Sequence[Row]) -> Figure:
    """Draw how often the evidence, and the words of the answer, stand in the prompt, by sessions, for each budget."""
    budgets = list(dict.fromkeys(row["budget"] for row in rows))
    return _lines(
        [
            (f"{measure}, {budget:,} bytes", [row for row in rows if row["budget"] == budget], measure)
            for measure in (EVIDENCE, WORDS)
            for budget in budgets
        ],
        "sessions since",
    )


def _lines(panels: Sequence[tuple[str, Sequence[Row], str]], across: str) -> Figure:
    """Draw a panel for each title, rows and measure, with a line for each memory."""
    figure = Figure(figsize=(max(12, 4 * len(panels)), 4.8), layout="constrained")
    memories = list(dict.fromkeys(row["memory"] for _, rows, _ in panels for row in rows))
    for axes, (title, rows, measure) in zip(_side_by_side(figure, len(panels)), panels, strict=True):
        for number, memory in enumerate(memories):
            found = sorted((row for row in rows if row["memory"] == memory), key=lambda row: int(row[across]))
            axes.errorbar(
                [row[across] * (1 + 0.02 * number) for row in found],  # side by side, to be told apart
                [100 * row[measure]["share"] for row in found],
                yerr=_errors(found, measure),
                marker="o",
                markersize=4,
                capsize=2,
                elinewidth=0.6,
                label=memory,
            )
        axes.set(xlabel=across, ylabel="%", title=title, ylim=(-3, 103))
    _legend(figure, memories)
    return figure


def _side_by_side(figure: Figure, number: int) -> list[Axes]:
    return list(figure.subplots(1, number, squeeze=False, sharey=True)[0])


def _errors(rows: Iterable[Row], measure: str) -> list[list[float]]:
    found = [row[measure] for row in rows]
    return [
        [100 * (each["share"] - each["low"]) for each in found],
        [100 * (each["high"] - each["share"]) for each in found],
    ]


def _legend(figure: Figure, memories: Sequence[str]) -> None:
    if len(memories) > 1:
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=len(memories))


__all__ = ["bars", "recall", "retention"]
