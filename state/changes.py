# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a commit changed: two contexts, one after the other, compared section by section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xr_ai_conversation.state.context import Entry, ParticipantContext, Summary, empty, section


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


def changes(before: ParticipantContext, after: ParticipantContext) -> tuple[Change, ...]:
    """Return what changed, the dialogue first."""
    return tuple(change for change in _compared(before, after) if change != Change(change.topic))


def node_of(changed: Sequence[Change], after: ParticipantContext) -> str:
    """Return the names of the nodes whose work a commit is, joined by "+"; "edit" if it is that of none.

    Args:
        changed: What `changes` returned of the commit.
        after: The context after it.
    """
    if changed and after == empty():
        return "clear"
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
        old, new = section(before, topic), section(after, topic)
        made = new["summary"] if new["summary"] != old["summary"] else None
        yield Change(
            topic,
            _without(new["entries"], old["entries"]),
            _without(old["entries"], new["entries"]),
            made,
        )
    for topic in dict.fromkeys((*before["states"], *after["states"])):
        states = [[found["states"][topic]] if topic in found["states"] else [] for found in (before, after)]
        yield Change(topic, _without(states[1], states[0]), _without(states[0], states[1]))


def _without(entries: Iterable[Entry], others: Iterable[Entry]) -> tuple[Entry, ...]:
    ids = {entry["id"] for entry in others}
    return tuple(entry for entry in entries if entry["id"] not in ids)


__all__ = ["Change", "changes", "differing", "node_of"]
