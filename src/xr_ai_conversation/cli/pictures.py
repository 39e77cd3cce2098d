# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A participant's context and the messages of a request, as they are shown to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from xr_ai_conversation.cli.screen import harmless

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from xr_ai_conversation.state.budgets import Budgets
    from xr_ai_conversation.state.context import Entry, ParticipantContext, Section, Update
    from xr_ai_conversation.state.render import SectionView

_BAR_CELLS = 24
_ROLES = ("system", "user: the context", "user: the request")


def show_messages(console: Console, messages: Sequence[BaseMessage]) -> None:
    """Print the messages of an answer request under their roles.

    Args:
        console: Where; if it is no terminal the texts are printed byte for byte.
        messages: System, context and request.
    """
    for role, message in zip(_ROLES, messages, strict=True):
        console.rule(Text(role, style="bold"), align="left", style="dim")
        text = str(message.content)
        console.out(harmless(text) if console.is_terminal else text, highlight=False)


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

    overview = Table.grid(padding=(0, 2))
    overview.add_column(max_width=30)
    overview.add_column(no_wrap=True)
    overview.add_column(justify="right", no_wrap=True)
    overview.add_column(style="dim")
    found = views(context, budgets)
    for topic, view in found.items():
        budget = budgets.of_section(topic)
        summary = block_size(view.summary.text) if view.summary else 0
        overview.add_row(
            Text(_name(topic), style="bold"),
            _bar(console, summary, view.size - summary, budget),
            f"{view.size:,} of {budget:,} bytes",
            f"{summary:,} summary, {view.size - summary:,} verbatim",
        )
    for topic, budget in budgets.summary.items():
        update = context["states"].get(topic)
        used = block_size(render_state(update, topic, budget - len(SEPARATOR))) if update else 0
        overview.add_row(
            Text(topic, style="bold"),
            _bar(console, 0, used, budget),
            f"{used:,} of {budget:,} bytes",
            "current state, replaced by each update",
        )
    console.print(overview)
    for topic, view in found.items():
        _show_section(console, topic, section(context, topic), view)
    for topic in budgets.summary:
        if topic in context["states"]:
            _show_state(console, topic, context["states"][topic])


def _show_section(console: Console, topic: str | None, stored: Section, view: SectionView) -> None:
    from xr_ai_conversation.state.times import shown

    if not stored["summary"] and not stored["entries"]:
        return
    unit = "exchange" if topic is None else "update"
    console.print(Text(f"\n{_name(topic)}", style="bold"))
    if summary := stored["summary"]:
        span = f"{shown(summary['start'])} to {shown(summary['end'])}"
        _heading(console, f"summary of {_counted(summary['covers'], unit)}, {span}", "magenta")
        _body(console, summary["text"])
    if entries := stored["entries"]:
        _heading(console, f"verbatim, {_counted(len(entries), unit)}", "green")
    for number, entry in enumerate(entries):
        left_out = "  (over budget, prompts leave it out)" if number < view.left_out else ""
        interrupted = "  (interrupted)" if entry.get("interrupted") else ""
        _heading(console, f"{shown(entry['time'])}{interrupted}{left_out}", "dim")
        _body(console, _said(entry))


def _show_state(console: Console, topic: str, update: Update) -> None:
    from xr_ai_conversation.state.times import shown

    console.print(Text(f"\n{topic}", style="bold"))
    _heading(console, f"state since {shown(update['time'])}", "green")
    _body(console, update["text"])


def _said(entry: Entry) -> str:
    from xr_ai_conversation.state.text import quote

    if "request" in entry:
        return f"{quote('user', entry['request'])}\n{quote('assistant', entry['response'])}"
    return entry["text"]


def _heading(console: Console, text: str, style: str) -> None:
    console.print(Padding(Text(text, style=style), (0, 0, 0, 2)))


def _body(console: Console, text: str) -> None:
    console.print(Padding(Text(harmless(text)), (0, 0, 0, 4)))


def _bar(console: Console, summary: int, verbatim: int, budget: int) -> Text:
    dense, solid, free = "#=." if console.options.ascii_only else "▓█░"
    ends = [min(_BAR_CELLS, -(-part * _BAR_CELLS // budget)) for part in (summary, summary + verbatim)]
    return Text.assemble(
        (dense * ends[0], "magenta"),
        (solid * (ends[1] - ends[0]), "green"),
        (free * (_BAR_CELLS - ends[1]), "dim"),
    )


def _name(topic: str | None) -> str:
    return "dialogue" if topic is None else topic


def _counted(count: int, unit: str) -> str:
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


__all__ = ["show_context", "show_messages"]
