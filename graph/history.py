# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What the kept checkpoints of a participant tell: what each commit changed, and what an answer was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple

from xr_ai_conversation.nodes.answer import answer_messages
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.changes import Change, changes, node_of
from xr_ai_conversation.state.context import Exchange, ParticipantContext, empty, load
from xr_ai_conversation.state.manifest import Manifest, manifest
from xr_ai_conversation.state.operations import fold
from xr_ai_conversation.state.prompt import prompt_view
from xr_ai_conversation.state.times import instant


class HistoryError(LookupError):
    """What an answer was made from cannot be told; the message is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint that is kept."""

    id: str
    first: bool
    """Nothing was stored before it."""
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
    "edit" is a change by hand. Empty if it is not known, since the checkpoint before it is no longer kept."""
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
    """The answer, as it is stored."""
    exact: bool
    """The context message is byte for byte the one that was sent. Otherwise budgets, topics or the version of this
    software were others then."""
    manifest: Manifest
    """What the context message shows, and what it leaves out and why."""


def kept(found: CheckpointTuple) -> Kept:
    """Return what a checkpoint of a participant's thread holds.

    Raises:
        ContextSchemaError: Its context is damaged, or of a newer version.
    """
    values = found.checkpoint["channel_values"]
    told = values.get("manifest")
    return Kept(
        id=found.checkpoint["id"],
        first=found.parent_config is None,
        time=datetime.fromisoformat(found.checkpoint["ts"]),
        context=load(values.get("context")),
        answered=(str(told["time"]), str(told["digest"])) if told else None,
    )


def commits(checkpoints: Sequence[Kept], budgets: Budgets) -> list[Commit]:
    """Return the changes that kept checkpoints tell, oldest first.

    Args:
        checkpoints: Of one participant, oldest first.
        budgets: Of the sections.
    """
    found: list[Commit] = []
    before: ParticipantContext | None = None
    for each in checkpoints:
        known = before is not None or each.first
        changed = changes(before or empty(), each.context) if known else ()
        if changed or not known:
            node = node_of(changed, each.context) if known else ""
            sizes = prompt_view(each.context, budgets).sizes
            found.append(Commit(each.id, each.time, node, sizes, changed))
        before = each.context
    return found


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
    number, exchange = _found(checkpoints, turn, of)
    told, digest, before = _basis(checkpoints, number, exchange, of)
    seen = prompt_view(before.context, budgets)
    now = instant(told)
    made = manifest(before.context, budgets, seen, now)
    return Explanation(
        entry_id=exchange["id"],
        turn_id=exchange.get("turn_id"),
        checkpoint_id=before.id,
        messages=tuple(answer_messages(system, seen, exchange["request"], now)),
        response=exchange["response"],
        exact=made["digest"] == digest,
        manifest=made,
    )


def _found(checkpoints: Sequence[Kept], turn: str | int, of: str) -> tuple[int, Exchange]:
    """Return the exchange that is meant, and the number of the oldest checkpoint that has it."""
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
        raise HistoryError(f"{of} is in no checkpoint that is kept; {_KEPT}")
    return next(
        n for n, each in enumerate(checkpoints) if meant[0] in each.context["dialogue"]["entries"]
    ), meant[0]


_KEPT = "history of the ContextManager says how many are, 120 by default, and none after clear"


def _basis(checkpoints: Sequence[Kept], number: int, exchange: Exchange, of: str) -> tuple[str, str, Kept]:
    """Return the time that an answer was told, the digest of its context message, and what it was made from."""
    basis = exchange.get("basis")
    nothing = Kept("", True, checkpoints[0].time, empty(), None)
    pruned = HistoryError(f"{of} was answered from a checkpoint that is no longer kept; {_KEPT}")
    if basis is None:
        answered = checkpoints[number].answered
        if answered is None or answered[0] != exchange["time"]:
            raise HistoryError(
                f"{of} was answered by another agent, or comes from a router's history: what was sent for it is not known"
            )
        # in a run of the whole graph nothing comes between its beginning and its record
        if number == 0 and not checkpoints[0].first:
            raise pruned
        return *answered, checkpoints[number - 1] if number else nothing
    before = next((each for each in (nothing, *checkpoints) if each.id == basis["checkpoint"]), None)
    if before is None:
        raise pruned
    if window := basis.get("window"):
        context = _with_window(before.context, checkpoints[: number + 1], window)
        before = replace(before, context=context)
    return basis.get("told", exchange["time"]), basis["digest"], before


def _with_window(context: ParticipantContext, later: Sequence[Kept], window: str) -> ParticipantContext:
    """Return a context with the exchanges of a history window, which a later checkpoint has."""
    past = {
        entry["id"]: entry
        for each in later
        for entry in each.context["dialogue"]["entries"]
        if "request" in entry and entry["id"].startswith(window)
    }
    exchanges = [past[entry_id] for entry_id in sorted(past, key=lambda each: int(each.removeprefix(window)))]
    return fold(context, [{"op": "record", "exchanges": exchanges, "identities": [""] * len(exchanges)}])


__all__ = ["Commit", "Explanation", "HistoryError", "Kept", "commits", "explanation", "kept"]
