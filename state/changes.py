# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a commit changed: two contexts, one after the other, compared section by section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xr_ai_conversation.state.context import Entry, ParticipantContext, Section, Summary, empty, section
from xr_ai_conversation.state.text import size


@dataclass(frozen=True, slots=True)
class Edit:
    """What was changed by hand in an entry or a summary, without its text."""

    id: str
    """Of the entry or the summary."""
    fields: tuple[str, ...]
    """The names of what is another now, as `response` or `time`; of a summary that was taken out, of all that it had."""
    before: int
    """UTF-8 bytes of its texts before."""
    after: int
    """The same afterwards."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit changed in one section."""

    topic: str | None
    """None is the dialogue."""
    added: tuple[Entry, ...] = ()
    """Exchanges or updates that came; of a summary topic its new state."""
    left: tuple[Entry, ...] = ()
    """Those that went: into a summary, or as the old state of a summary topic, or forgotten."""
    summary: Summary | None = None
    """The summary that was made."""
    edited: tuple[Edit, ...] = ()
    """What is no longer as it was recorded or made, which no node does but clear."""


def changes(before: ParticipantContext, after: ParticipantContext) -> tuple[Change, ...]:
    """Return what changed, the dialogue first."""
    return tuple(change for change in _compared(before, after) if change != Change(change.topic))


def node_of(changed: Sequence[Change], after: ParticipantContext) -> str:
    """Return the names of the nodes whose work a commit is, joined by "+"; "edit" if not all of it can be that of nodes.

    Args:
        changed: What `changes` returned of the commit.
        after: The context after it.
    """
    if changed and after == empty():
        return "clear"
    if any(change.edited for change in changed):
        return "edit"
    done = {
        "record": any(change.added for change in changed if change.topic is None),
        "update": any(change.added for change in changed if change.topic is not None),
        "compact": any(change.summary for change in changed),
    }
    return "+".join(name for name, was_done in done.items() if was_done) or "edit"


def differing(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of the fields that are others, in their order."""
    return tuple(name for name in {**before, **after} if before.get(name) != after.get(name))


def _compared(before: ParticipantContext, after: ParticipantContext) -> Iterator[Change]:
    for topic in (None, *dict.fromkeys((*before["topics"], *after["topics"]))):
        yield _change(topic, section(before, topic), section(after, topic))
    for topic in dict.fromkeys((*before["states"], *after["states"])):
        yield _change(topic, _state(before, topic), _state(after, topic))


def _state(context: ParticipantContext, topic: str) -> Section:
    """Return the state of a summary topic as a section of one entry, or of none."""
    return {"summary": None, "entries": [context["states"][topic]] if topic in context["states"] else []}


def _change(topic: str | None, before: Section, after: Section) -> Change:
    old, new = before["summary"], after["summary"]
    replaced = new is not None and (old is None or new["id"] != old["id"])
    known = {entry["id"]: entry for entry in before["entries"]}
    edits = [
        _edit(known[entry["id"]], entry)
        for entry in after["entries"]
        if known.get(entry["id"], entry) != entry
    ]
    if old and new != old and not replaced:
        edits.insert(0, _edit(old, new or {}))
    return Change(
        topic,
        added=_without(after["entries"], before["entries"]),
        left=_without(before["entries"], after["entries"]),
        summary=new if replaced else None,
        edited=tuple(edits),
    )


def _edit(before: Mapping[str, object], after: Mapping[str, object]) -> Edit:
    return Edit(str(before["id"]), differing(before, after), _size(before), _size(after))


def _size(told: Mapping[str, object]) -> int:
    return sum(size(str(told.get(name, ""))) for name in ("request", "response", "text"))


def _without(entries: Iterable[Entry], others: Iterable[Entry]) -> tuple[Entry, ...]:
    ids = {entry["id"] for entry in others}
    return tuple(entry for entry in entries if entry["id"] not in ids)


__all__ = ["Change", "Edit", "changes", "differing", "node_of"]
