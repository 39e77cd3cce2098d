# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A participant's context and the messages of a request, as they are shown to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xr_ai_conversation.cli.screen import harmless

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from xr_ai_conversation.state.budgets import Budgets
    from xr_ai_conversation.state.context import Entry, ParticipantContext, Section, Update
    from xr_ai_conversation.state.render import SectionView


class _Marks(NamedTuple):
    """What the cells of a bar are drawn with."""

    summary: str
    verbatim: str
    free: str


_MARKS = _Marks("▓", "█", "░")
_ASCII_MARKS = _Marks("#", "=", ".")
_SUMMARY_STYLE = "magenta"
_VERBATIM_STYLE = "green"
_BAR_CELLS = 24
_ROLES = ("system", "user: the context", "user: the request")


def remembered(context: ParticipantContext) -> str:
    """Return in a few words how much of the dialogue is stored."""
    summary = " and a summary of earlier ones" if context["dialogue"]["summary"] else ""
    return f"{counted(len(context['dialogue']['entries']), 'exchange')}{summary} remembered"


def show_messages(console: Console, messages: Sequence[BaseMessage]) -> None:
    """Print the messages of an answer request under their roles.

    Args:
        console: Where; if it is no terminal the texts are printed byte for byte.
        messages: System, context and request.
    """
    for role, message in zip(_ROLES, messages, strict=True):
        _show_message(console, role, str(message.content))


def show_answer(console: Console, text: str) -> None:
    """Print an answer as `show_messages` prints what it was an answer to."""
    _show_message(console, "assistant: the answer", text)


def _show_message(console: Console, role: str, text: str) -> None:
    console.rule(Text(role, style="bold"), align="left", style="dim")
    if console.is_terminal:
        console.print(Text(harmless(text)))
    else:
        console.out(text, highlight=False)


def show_context(console: Console, context: ParticipantContext, budgets: Budgets) -> None:
    """Print each section of a context: its bytes against its budget, then what is summary and what verbatim.

    Args:
        console: Where.
        context: What is stored of a participant.
        budgets: Of the sections; topics without one are not shown.
    """
    from xr_ai_conversation.state.context import section
    from xr_ai_conversation.state.prompt import views
    from xr_ai_conversation.state.render import SEPARATOR, block_size, render_state

    marks = _ASCII_MARKS if console.options.ascii_only else _MARKS
    overview = Table.grid(padding=(0, 2))
    overview.add_column(style="bold", max_width=30)
    overview.add_column(no_wrap=True)
    overview.add_column(no_wrap=True, justify="right")
    found = views(context, budgets)
    for topic, view in found.items():
        budget = budgets.of_section(topic)
        bar = _bar(marks, _summary_size(view), view.size, budget)
        overview.add_row(Text(section_name(topic)), bar, f"{view.size:,} of {budget:,} bytes")
    for name, budget in budgets.summary.items():
        update = context["states"].get(name)
        used = block_size(render_state(update, name, budget - len(SEPARATOR))) if update else 0
        overview.add_row(Text(name), _bar(marks, 0, used, budget), f"{used:,} of {budget:,} bytes")
    console.print(overview)
    for topic, view in found.items():
        _show_section(console, marks, topic, section(context, topic), view)
    for name in budgets.summary:
        if update := context["states"].get(name):
            _show_state(console, marks, name, update)


def _show_section(
    console: Console, marks: _Marks, topic: str | None, stored: Section, view: SectionView
) -> None:
    from xr_ai_conversation.state.times import shown

    if not stored["summary"] and not stored["entries"]:
        return
    unit = "exchange" if topic is None else "update"
    console.print(Text(f"\n{section_name(topic)}", style="bold"))
    if summary := stored["summary"]:
        covered = f"{counted(summary['covers'], unit)}, {shown(summary['start'])} to {shown(summary['end'])}"
        heading = f"{marks.summary} summary of {covered}, {_summary_size(view):,} bytes"
        _heading(console, heading, _SUMMARY_STYLE)
        _body(console, summary["text"])
    if entries := stored["entries"]:
        cut = f", prompts cut {view.clipped} of them to fit" if view.clipped else ""
        size = view.size - _summary_size(view)
        heading = f"{marks.verbatim} verbatim, {counted(len(entries), unit)}, {size:,} bytes{cut}"
        _heading(console, heading, _VERBATIM_STYLE)
    for number, entry in enumerate(entries):
        left_out = ", over budget: prompts leave it out" if number < view.left_out else ""
        interrupted = ", interrupted" if entry.get("interrupted") else ""
        _heading(console, f"  {shown(entry['time'])}{interrupted}{left_out}", "dim")
        _body(console, _said(entry))


def _show_state(console: Console, marks: _Marks, topic: str, update: Update) -> None:
    from xr_ai_conversation.state.times import shown

    console.print(Text(f"\n{topic}", style="bold"))
    _heading(console, f"{marks.verbatim} verbatim, the state since {shown(update['time'])}", _VERBATIM_STYLE)
    _body(console, update["text"])


def _said(entry: Entry) -> str:
    from xr_ai_conversation.state.text import quote

    if "request" in entry:
        return f"{quote('user', entry['request'])}\n{quote('assistant', entry['response'])}"
    return entry["text"]


def _heading(console: Console, text: str, style: str) -> None:
    console.print(Text(f"  {text}", style=style), soft_wrap=True)


def _body(console: Console, text: str) -> None:
    for line in harmless(text).splitlines():
        # what goes into a file or a pipe is not broken
        parts = Text(line).wrap(console, max(20, console.width - 4)) if console.is_terminal else [Text(line)]
        for part in parts:
            console.print(Text.assemble("    ", part), soft_wrap=True)


def _bar(marks: _Marks, summary: int, used: int, budget: int) -> Text:
    # any part that is there is seen
    middle, end = (min(_BAR_CELLS, -(-part * _BAR_CELLS // budget)) for part in (summary, used))
    return Text.assemble(
        (marks.summary * middle, _SUMMARY_STYLE),
        (marks.verbatim * (end - middle), _VERBATIM_STYLE),
        (marks.free * (_BAR_CELLS - end), "dim"),
    )


def _summary_size(view: SectionView) -> int:
    from xr_ai_conversation.state.render import block_size

    return block_size(view.summary.text) if view.summary else 0


def section_name(topic: str | None) -> str:
    """Return what a section is called: the dialogue for None, or an incremental or summary topic."""
    return "dialogue" if topic is None else topic


def counted(count: int, unit: str) -> str:
    """Return a number of things with their unit, as it is read."""
    plural = f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}s"
    return f"{count:,} {unit if count == 1 else plural}"


__all__ = ["counted", "remembered", "section_name", "show_answer", "show_context", "show_messages"]
