# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The picture of a participant's history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xr_ai_conversation.cli.errors import Failure
from xr_ai_conversation.cli.past import used_sections
from xr_ai_conversation.cli.pictures import section_name

if TYPE_CHECKING:
    from xr_ai_conversation.graph.history import Commit
    from xr_ai_conversation.state.budgets import Budgets

_TICKS = 8


def draw(picture: Path, commits: Sequence[Commit], budgets: Budgets, title: str) -> None:
    """Draw the bytes of each section after each commit, with its budget, and mark the compactions and edits.

    Args:
        picture: The file; its ending says the format.
        commits: Oldest first; one at the least.
        budgets: Of the sections.
        title: Stands above.

    Raises:
        Failure: matplotlib is not installed, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Failure("--plot needs matplotlib: pip install 'xr-ai-conversation[plot]'.") from error

    figure = Figure(figsize=(10, 4.8), layout="constrained")
    axes = figure.subplots()
    numbers = range(1, len(commits) + 1)
    until = len(commits) + 1  # the last state lasts, and has a width too
    for place, topic in enumerate(used_sections(commits)):
        color = f"C{place % 10}"
        sizes = [commit.bytes.get(topic, 0) for commit in commits]
        steps = [*numbers, until], [*sizes, sizes[-1]]
        axes.step(*steps, where="post", color=color, label=section_name(topic))
        axes.axhline(
            budgets.of_section(topic),
            color=color,
            linestyle=":",
            linewidth=1,
            label=f"budget of {section_name(topic)}",
        )
        for label, marker, marked in (("compacted", "v", _compacted), ("edited", "D", _edited)):
            places = [number for number, commit in enumerate(commits, 1) if marked(commit, topic)]
            if places:
                axes.plot(
                    places,
                    [sizes[number - 1] for number in places],
                    marker,
                    color=color,
                    markeredgecolor="black",
                    label=f"{section_name(topic)} {label}",
                )
    ticks = numbers[:: max(1, -(-len(commits) // _TICKS))]
    axes.set_xticks(ticks, [f"{number}\n{commits[number - 1].time.astimezone():%H:%M}" for number in ticks])
    axes.set(xlabel="commit, and when it was", ylabel="bytes in the prompt", title=title)
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside right upper", fontsize=9)
    try:
        figure.savefig(picture, dpi=110)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).splitlines()[0].rstrip(".")
        raise Failure(f"The picture {picture} cannot be written: {reason}.") from error


def _compacted(commit: Commit, topic: str | None) -> bool:
    return any(change.topic == topic and change.summary for change in commit.changes)


def _edited(commit: Commit, topic: str | None) -> bool:
    return commit.node == "edit" and any(change.topic == topic for change in commit.changes)


__all__ = ["draw"]
