# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a prompt shows of a context and what it leaves out, told in ids, counts and sizes; no text is in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, TypeAlias

from typing_extensions import TypedDict

from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.context import ParticipantContext, Summary, section
from xr_ai_conversation.state.prompt import PromptView, context_message, digest, frame_size
from xr_ai_conversation.state.render import ContextBlock, SectionView, block_size, render_state
from xr_ai_conversation.state.text import size
from xr_ai_conversation.state.times import instant, stamp

Kind: TypeAlias = Literal["dialogue", "incremental", "summary"]
Why: TypeAlias = Literal["", "over_budget", "not_configured"]


class SummaryManifest(TypedDict):
    """What a prompt shows of the summary of a section."""

    id: str
    start: str
    """Recorded time of the oldest entry that it covers."""
    end: str
    """Recorded time of the newest entry that it covers."""
    covers: int
    """How many entries it covers."""
    bytes: int
    """What it takes in the context message; 0 if it is not shown."""
    age_s: int
    """Seconds from the newest entry that it covers to the request."""


class SectionManifest(TypedDict):
    """What a prompt shows of one section."""

    kind: Kind
    topic: str | None
    """None is the dialogue."""
    budget: int
    """The most bytes that it may take; 0 for a topic that is not configured."""
    bytes: int
    """What it takes in the context message."""
    summary: SummaryManifest | None
    shown: list[str]
    """Ids of the entries shown, oldest first; of a summary topic, the id of its state."""
    cut: list[str]
    """Ids of those of them that keep only their start and end."""
    left_out: list[str]
    """Ids of the entries not shown, oldest first."""
    why: Why
    """Why they, or the summary, are not shown: the section is over its budget, or its topic is not configured."""


class Manifest(TypedDict):
    """What a request shows of what is remembered: plain JSON, without a word of what was said."""

    time: str
    """The current time that it tells."""
    bytes: int
    """The size of the context message: that of all sections and of the frame."""
    frame: int
    """What the message has beside the sections: the line before them and the current time."""
    digest: str
    """`prompt.digest` of the message."""
    sections: list[SectionManifest]
    """The dialogue, the configured topics, then those that are stored and not configured."""


def manifest(context: ParticipantContext, budgets: Budgets, seen: PromptView, now: datetime) -> Manifest:
    """Tell what a prompt shows of a context, and what it leaves out and why.

    Args:
        context: A participant's context.
        budgets: Of the sections.
        seen: What `prompt_view` returned of both.
        now: The current time of the prompt, with its zone.
    """
    sections = [
        *(_section(context, topic, found, budgets, now) for topic, found in seen.sections.items()),
        *(
            _state(context, topic, budget, seen.states.get(topic))
            for topic, budget in budgets.summary.items()
        ),
        *_not_configured(context, budgets, now),
    ]
    shown = seen.blocks
    frame = frame_size(shown, now)
    return {
        "time": stamp(now),
        "bytes": frame + sum(found["bytes"] for found in sections),
        "frame": frame,
        "digest": digest(context_message(shown, now)),
        "sections": sections,
    }


def outline(seen: PromptView, message: str) -> dict[str, int]:
    """Return a prompt's manifest in a few figures, for the trace of a model call.

    Args:
        seen: What the prompt shows.
        message: The context message that was made of it.
    """
    sections = seen.sections.values()
    return {
        "context_bytes": size(message),
        "context_summaries": sum(found.summary is not None for found in sections),
        "context_shown": sum(len(found.entries) for found in sections) + len(seen.states),
        "context_cut": sum(found.clipped for found in sections),
        "context_left_out": sum(found.left_out for found in sections),
    }


def _section(
    context: ParticipantContext, topic: str | None, found: SectionView, budgets: Budgets, now: datetime
) -> SectionManifest:
    stored = section(context, topic)
    ids = [entry["id"] for entry in stored["entries"]]
    return {
        "kind": "dialogue" if topic is None else "incremental",
        "topic": topic,
        "budget": budgets.of_section(topic),
        "bytes": found.size,
        "summary": _summary(stored["summary"], found.summary, now),
        "shown": ids[found.left_out :],
        "cut": [*found.cut],
        "left_out": ids[: found.left_out],
        "why": "over_budget" if found.left_out else "",
    }


def _summary(stored: Summary | None, shown: ContextBlock | None, now: datetime) -> SummaryManifest | None:
    if stored is None:
        return None
    return {
        "id": stored["id"],
        "start": stored["start"],
        "end": stored["end"],
        "covers": stored["covers"],
        "bytes": block_size(shown.text) if shown else 0,
        "age_s": round((now - instant(stored["end"])).total_seconds()),
    }


def _state(
    context: ParticipantContext, topic: str, budget: int, shown: ContextBlock | None
) -> SectionManifest:
    state = context["states"].get(topic)
    found: SectionManifest = {
        "kind": "summary",
        "topic": topic,
        "budget": budget,
        "bytes": 0,
        "summary": None,
        "shown": [],
        "cut": [],
        "left_out": [],
        "why": "",
    }
    if state is None or shown is None:
        return found
    ids = [state["id"]]
    cut = ids if shown.text != render_state(state, topic) else []
    return {**found, "bytes": block_size(shown.text), "shown": ids, "cut": cut}


def _not_configured(
    context: ParticipantContext, budgets: Budgets, now: datetime
) -> Iterator[SectionManifest]:
    for topic, stored in context["topics"].items():
        if topic not in budgets.incremental:
            ids = [entry["id"] for entry in stored["entries"]]
            yield _hidden("incremental", topic, _summary(stored["summary"], None, now), ids)
    for topic, state in context["states"].items():
        if topic not in budgets.summary:
            yield _hidden("summary", topic, None, [state["id"]])


def _hidden(kind: Kind, topic: str, summary: SummaryManifest | None, ids: list[str]) -> SectionManifest:
    return {
        "kind": kind,
        "topic": topic,
        "budget": 0,
        "bytes": 0,
        "summary": summary,
        "shown": [],
        "cut": [],
        "left_out": ids,
        "why": "not_configured",
    }


__all__ = ["Kind", "Manifest", "SectionManifest", "SummaryManifest", "Why", "manifest", "outline"]
