# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is kept of the past, as it is shown to a person: an explained answer, and a line for each commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from xr_ai_conversation.cli.pictures import counted, section_name, show_answer, show_messages
from xr_ai_conversation.cli.screen import harmless

if TYPE_CHECKING:
    from xr_ai_conversation.graph.history import Commit, Explanation
    from xr_ai_conversation.state.changes import Change, Edit
    from xr_ai_conversation.state.context import Entry
    from xr_ai_conversation.state.manifest import SectionManifest, SummaryManifest

_WHY = {"over_budget": "the section is over its budget", "not_configured": "the topic is not configured"}
_NAMED = 3
"""How many entries of a commit are named."""


def show_explanation(console: Console, told: Explanation) -> None:
    """Print what an answer was made from: where it was, what each section showed, the messages and the answer.

    Args:
        console: Where.
        told: The explanation.
    """
    from xr_ai_conversation.state.times import shown

    turn = "" if told.turn_id is None else f"turn {told.turn_id}, "
    _line(console, f"{turn}exchange {told.entry_id}, asked {shown(told.manifest['time'])}")
    _line(console, f"made from {told.checkpoint_id or 'nothing, for nothing was stored'}")
    if told.edited:
        _line(console, f"edited since ({', '.join(told.edited)}); this is how it was before")
    for found in told.manifest["sections"]:
        _line(console, f"  {_section(found)}")
    _line(console, f"  {told.manifest['bytes']:,} bytes in all\n")
    show_messages(console, told.messages)
    show_answer(console, told.response)


def show_history(console: Console, commits: Sequence[Commit]) -> None:
    """Print a line for each commit: when, by which node, the bytes of each section, and what changed.

    Args:
        console: Where.
        commits: Oldest first.
    """
    from xr_ai_conversation.state.times import shown, stamp

    topics = used_sections(commits)
    rows = [["time", "node", *map(section_name, topics), "what changed"]]
    for commit in commits:
        time = shown(stamp(commit.time.astimezone()))
        sizes = [f"{commit.bytes.get(topic, 0):,}" for topic in topics]
        rows.append([time, commit.node or "-", *sizes, _changed(commit)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(topics) + 2)]
    for number, row in enumerate(rows):
        named = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        sizes = [cell.rjust(width) for cell, width in zip(row[2:-1], widths[2:], strict=True)]
        _line(console, "  ".join((*named, *sizes, row[-1])), "" if number else "bold")


def used_sections(commits: Iterable[Commit]) -> list[str | None]:
    """Return the sections that ever had something in them."""
    sizes: list[Mapping[str | None, int]] = [commit.bytes for commit in commits]
    return [
        topic
        for topic in dict.fromkeys(t for each in sizes for t in each)
        if any(each.get(topic) for each in sizes)
    ]


def _section(found: SectionManifest) -> str:
    parts = [f"{found['bytes']:,} of {found['budget']:,} bytes"]
    if summary := found["summary"]:
        parts.append(_summary(summary))
    parts.append(f"{len(found['shown'])} shown")
    if found["cut"]:
        parts.append(f"{len(found['cut'])} of them cut")
    if found["left_out"]:
        parts.append(f"{len(found['left_out'])} left out, since {_WHY[found['why']]}")
    return f"{section_name(found['topic'])}: {', '.join(parts)}"


def _summary(found: SummaryManifest) -> str:
    from xr_ai_conversation.state.times import shown

    covers = f"summary of {found['covers']:,}, {shown(found['start'])} to {shown(found['end'])}"
    return f"{covers}, {_span(found['age_s'])} old" if found["bytes"] else f"{covers}, not shown"


def _span(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds} s"


def _changed(commit: Commit) -> str:
    if not commit.node:
        return "(what was before is no longer kept)"
    if commit.node == "clear":
        return "all forgotten"
    return "; ".join(_change(change) for change in commit.changes)


def _change(change: Change) -> str:
    name = section_name(change.topic)
    kind = "exchange" if change.topic is None else "update"
    parts: list[str] = []
    if change.summary:
        covers = f"{change.summary['covers']:,}"
        parts.append(f"{name}: {counted(len(change.left), kind)} into a summary of {covers}")
    elif change.left and not change.added:
        parts.append(f"{name}: {counted(len(change.left), 'entry')} gone")
    if change.added:
        parts.append(f"+{_named(change.added)}" + ("" if change.topic is None else f" on {name}"))
    if change.edited:
        more = "… " if len(change.edited) > _NAMED else ""
        parts.append(f"{name}: edited {more}{', '.join(map(_edited, change.edited[-_NAMED:]))}")
    return "; ".join(parts)


def _edited(edit: Edit) -> str:
    return f"{edit.id} ({', '.join(edit.fields)}; {edit.before:,} to {edit.after:,} bytes)"


def _named(entries: Sequence[Entry]) -> str:
    kind = "exchange" if "request" in entries[0] else "update"
    names = [entry.get("turn_id") or entry["id"] for entry in entries[-_NAMED:]]
    more = "… " if len(entries) > _NAMED else ""
    return f"{counted(len(entries), kind)} ({more}{', '.join(map(str, names))})"


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(harmless(text), style=style), soft_wrap=True)


__all__ = ["show_explanation", "show_history", "used_sections"]
