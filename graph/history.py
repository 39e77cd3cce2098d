# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What the kept checkpoints of a participant tell: what each commit changed, and what an answer was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple

from xr_ai_conversation.nodes.answer import answer_messages
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.changes import Change, changes, differing, node_of
from xr_ai_conversation.state.context import Basis, Exchange, ParticipantContext, empty, load
from xr_ai_conversation.state.manifest import Manifest, manifest
from xr_ai_conversation.state.operations import fold
from xr_ai_conversation.state.prompt import prompt_view
from xr_ai_conversation.state.times import instant

_KEPT = "history of the ContextManager says how many are, 120 by default, and none after clear"


class HistoryError(LookupError):
    """What an answer was made from cannot be told; the message is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint that is kept."""

    id: str
    parent: str
    """Id of the checkpoint that it changed; empty if there was none."""
    time: datetime
    """When it was written, by its writer's clock."""
    context: ParticipantContext
    answered: tuple[str, str] | None
    """Time and digest of the last answer of the whole graph; None if that gave none."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One change of what is stored of a participant."""

    checkpoint_id: str
    """The checkpoint that it wrote."""
    time: datetime
    """When, by its writer's clock, in UTC."""
    node: str
    """Whose work it is: record, update, compact or clear; several of one run of the whole graph are joined by "+", and
    "edit" is a change by hand. What was only added by hand is told as the work of a node. Empty if it is not known,
    since the checkpoint before it is no longer kept."""
    bytes: Mapping[str | None, int]
    """What each configured section takes in a prompt after it, in UTF-8 bytes; None is the dialogue."""
    changes: tuple[Change, ...]
    """What it changed, the dialogue first."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an answer was what it was: what the model was sent."""

    entry_id: str
    """Id of the exchange."""
    turn_id: str | None
    """The id of its turn; None if none is kept."""
    checkpoint_id: str
    """The checkpoint that the answer was made from; empty if nothing was stored."""
    messages: tuple[BaseMessage, ...]
    """System, context and request."""
    response: str
    """The answer that was given, as it was recorded."""
    edited: tuple[str, ...]
    """Which fields of the exchange were changed by hand since, as `response` or `time`; all is told as it was before."""
    exact: bool
    """The context message is byte for byte the one that was sent. Otherwise budgets, topics or the version of this
    software were others then, or what was shown of a router's history was stored otherwise."""
    manifest: Manifest
    """What the context message shows, and what it leaves out and why."""


def kept(found: CheckpointTuple) -> Kept:
    """Return what a checkpoint of a participant's thread holds.

    Raises:
        ContextSchemaError: Its context is damaged, or of a newer version.
    """
    values = found.checkpoint["channel_values"]
    parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else ""
    return Kept(
        id=found.checkpoint["id"],
        parent=parent,
        time=datetime.fromisoformat(found.checkpoint["ts"]),
        context=load(values.get("context")),
        answered=_answered(values.get("manifest")),
    )


def _answered(told: object) -> tuple[str, str] | None:
    match told:
        case {"time": str(time), "digest": str(digest)}:
            return time, digest
        case _:
            return None


def commits(checkpoints: Sequence[Kept], budgets: Budgets) -> list[Commit]:
    """Return the changes that led to the newest checkpoint, oldest first; a branch that a fork left is passed over.

    Args:
        checkpoints: Of one participant, oldest first.
        budgets: Of the sections.
    """
    contexts = _contexts(checkpoints)
    found: list[Commit] = []
    for each in _branch(checkpoints):
        before = contexts.get(each.parent)
        changed = () if before is None else changes(before, each.context)
        if changed or before is None:
            node = "" if before is None else node_of(changed, each.context)
            sizes = prompt_view(each.context, budgets).sizes
            found.append(Commit(each.id, each.time, node, sizes, changed))
    return found


def _branch(checkpoints: Sequence[Kept]) -> list[Kept]:
    """Return the newest checkpoint and those before it, oldest first, without those that a fork left."""
    by_id = {each.id: each for each in checkpoints}
    found = [*checkpoints[-1:]]
    while found and (before := by_id.get(found[-1].parent)):
        found.append(before)
    return found[::-1]


def _contexts(checkpoints: Sequence[Kept]) -> dict[str, ParticipantContext]:
    """Return the context of each checkpoint by its id; before the first one it was empty."""
    return {"": empty(), **{each.id: each.context for each in checkpoints}}


def explanation(
    checkpoints: Sequence[Kept], turn: str | int, system: str, budgets: Budgets, *, participant_id: str
) -> Explanation:
    """Return what an answer was made from.

    Args:
        checkpoints: Of the participant, oldest first.
        turn: The id of a turn, or of an exchange; or a negative number, where -1 is the newest exchange that is kept.
        system: The system message.
        budgets: Of the sections.
        participant_id: Whose; for what an error says.

    Raises:
        HistoryError: It cannot be told.
        TypeError: The turn is neither.
        ValueError: The number is not negative.
    """
    of = f"turn {turn!r} of participant {participant_id!r}"
    branch = _branch(checkpoints)
    newest = _found(branch, turn, of)
    recorded, exchange = _recorded(branch, newest["id"])
    contexts = _contexts(checkpoints)
    basis = exchange.get("basis") or _of_the_whole_graph(recorded, exchange)
    if basis is None and recorded.parent in contexts:
        raise HistoryError(
            f"{of} was answered by another agent, or comes from a router's history: what was sent for it is not known"
        )
    if basis is None or basis["checkpoint"] not in contexts:
        raise HistoryError(f"{of} was answered from a checkpoint that is no longer kept; {_KEPT}")
    context = contexts[basis["checkpoint"]]
    if window := basis.get("window"):
        context = _with_window(context, checkpoints, window)
    seen = prompt_view(context, budgets)
    now = instant(basis.get("told", exchange["time"]))
    made = manifest(context, budgets, seen, now)
    return Explanation(
        entry_id=exchange["id"],
        turn_id=exchange.get("turn_id"),
        checkpoint_id=basis["checkpoint"],
        messages=tuple(answer_messages(system, seen, exchange["request"], now)),
        response=exchange["response"],
        edited=differing(exchange, newest),
        exact=made["digest"] == basis["digest"],
        manifest=made,
    )


def _found(checkpoints: Sequence[Kept], turn: str | int, of: str) -> Exchange:
    """Return the exchange that is meant, as it is in the newest checkpoint that has it."""
    if not isinstance(turn, str | int) or isinstance(turn, bool):
        raise TypeError(f"turn must be an id or a negative number, got {type(turn).__name__}")
    if isinstance(turn, int) and turn >= 0:
        raise ValueError(
            f"turn must be an id or a negative number, where -1 is the newest exchange, got {turn}"
        )
    newest_first: dict[str, Exchange] = {}
    for each in reversed(checkpoints):
        for entry in reversed(each.context["dialogue"]["entries"]):
            if "request" in entry:
                newest_first.setdefault(entry["id"], entry)
    if isinstance(turn, int):
        meant = [*newest_first.values()][-turn - 1 : -turn]
    else:
        meant = [one for one in newest_first.values() if turn in (one["id"], one.get("turn_id"))]
    if not meant:
        raise HistoryError(f"{of} is in no checkpoint that is kept of the newest branch; {_KEPT}")
    return meant[0]


def _recorded(checkpoints: Sequence[Kept], entry_id: str) -> tuple[Kept, Exchange]:
    """Return the checkpoint that an exchange came with, or the oldest kept, and the exchange as it was there."""
    return next(
        (each, entry)
        for each in checkpoints
        for entry in each.context["dialogue"]["entries"]
        if "request" in entry and entry["id"] == entry_id
    )


def _of_the_whole_graph(recorded: Kept, exchange: Exchange) -> Basis | None:
    """Return what an answer of the whole graph was made from, which is stored beside the context; None if it is none."""
    if recorded.answered and recorded.answered[0] == exchange["time"]:
        # in a run of that graph nothing comes between its beginning and its record
        return {"checkpoint": recorded.parent, "digest": recorded.answered[1]}
    return None


def _with_window(context: ParticipantContext, checkpoints: Sequence[Kept], window: str) -> ParticipantContext:
    """Return a context with the exchanges of a history window, which other checkpoints have."""
    past = {
        entry["id"]: entry
        for each in reversed(checkpoints)  # what was edited since stands as it was recorded
        for entry in each.context["dialogue"]["entries"]
        if "request" in entry and entry["id"].startswith(window)
    }
    exchanges = [past[entry_id] for entry_id in sorted(past, key=lambda each: int(each.removeprefix(window)))]
    return fold(context, [{"op": "record", "exchanges": exchanges, "identities": [""] * len(exchanges)}])


__all__ = ["Commit", "Explanation", "HistoryError", "Kept", "commits", "explanation", "kept"]
