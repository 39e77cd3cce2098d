# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The operations that change a participant's context, and the reducer that folds them in."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Literal, NotRequired, TypeAlias, assert_never

from typing_extensions import TypedDict

from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.context import (
    Archive,
    Archived,
    Entry,
    Exchange,
    ParticipantContext,
    Section,
    Summary,
    Update,
    empty,
    load,
    section,
)
from xr_ai_conversation.state.edit import edited
from xr_ai_conversation.state.identity import (
    LENGTH,
    has_turn,
    identity,
    missing,
    recorded,
    unknown_from,
    unpacked,
    words,
)
from xr_ai_conversation.state.text import clean, size, visible
from xr_ai_conversation.state.times import instant

LONGEST_TURN = 128
"""UTF-8 bytes of the longest turn id that is kept with its exchange."""


class Record(TypedDict):
    """Adds exchanges to the dialogue, but those that are recorded already."""

    op: Literal["record"]
    exchanges: list[Exchange]
    identities: list[str]
    """Of each; empty for an interrupted one, which is in nobody's history and so stands in the way of none."""


class PastExchange(TypedDict):
    """One exchange of a router's completed history."""

    id: str
    """The id that the entry gets if the exchange is new."""
    request: str
    response: str
    identity: str
    time: NotRequired[str]
    """Recorded time, where the router has one."""
    turn_id: NotRequired[str]
    """The id of its turn, where the router has one."""


class Reconcile(TypedDict):
    """Adds what is new in a router's window of completed history."""

    op: Literal["reconcile"]
    window: list[PastExchange]
    """Oldest first."""
    now: str
    """Stands for the time of an exchange where neither it nor a neighbour has one."""
    unordered: NotRequired[bool]
    """It is a history of messages, of which that is new which `identity.missing` tells."""


class Append(TypedDict):
    """Adds an update to the section of an incremental topic."""

    op: Literal["append"]
    topic: str
    update: Update


class Replace(TypedDict):
    """Replaces the state of a summary topic."""

    op: Literal["replace"]
    topic: str
    update: Update


class Compact(TypedDict):
    """Puts a summary in the place of the entries it was made of, if all of them are still there."""

    op: Literal["compact"]
    topic: str | None
    """An incremental topic; None is the dialogue."""
    summary: Summary
    built_on: str | None
    """Id of the summary that the new one merges; None if there was none."""
    covered: list[str]
    """Ids of the entries that it merges."""


class MoveIdentities(TypedDict):
    """Leaves the oldest identities to the archive, in which they are."""

    op: Literal["archive"]
    archived: Archived


class Clear(TypedDict):
    """Forgets everything."""

    op: Literal["clear"]


Operation: TypeAlias = Record | Reconcile | Append | Replace | Compact | MoveIdentities | Clear


def record(entry: Exchange, turn_id: str | None = None) -> Record:
    """Return the operation that records an exchange, cleaned, of the given turn if it has a turn id."""
    request, response = clean(entry["request"]), clean(entry["response"])
    cleaned: Exchange = {**entry, "request": request, "response": response}
    return {
        "op": "record",
        "exchanges": [with_turn(cleaned, turn_id)],
        "identities": ["" if entry.get("interrupted") else identity(request, response, turn_id)],
    }


def with_turn(entry: Exchange, turn_id: str | None) -> Exchange:
    """Return an exchange with the id of its turn, by which it is found again; one that is very long is left out."""
    kept = clean(turn_id or "")
    return {**entry, "turn_id": kept} if kept and size(kept) <= LONGEST_TURN else entry


def update(budgets: Budgets, entry_id: str, time: str, topic: str, text: str) -> Append | Replace:
    """Return the operation that takes in what was published on a topic.

    Args:
        budgets: Tell which topics are configured, and how each is handled.
        entry_id: Unique id for the entry.
        time: Recorded time, as `times.stamp` writes it.
        topic: The name of a configured topic.
        text: What was published.

    Raises:
        TypeError: The topic or the text is no string.
        ValueError: The topic is not configured, or the text is blank.
    """
    for name, value in (("topic", topic), ("text", text)):
        if not isinstance(value, str):
            raise TypeError(f"{name} of an update must be a string, got {type(value).__name__}")
    entry = Update(id=entry_id, time=time, text=clean(text))
    if not visible(entry["text"]):
        raise ValueError(
            f"text of an update on {topic!r} must not be blank, got {len(text)} blank characters"
        )
    if topic in budgets.incremental:
        return {"op": "append", "topic": topic, "update": entry}
    if topic in budgets.summary:
        return {"op": "replace", "topic": topic, "update": entry}
    known = ", ".join(map(repr, (*budgets.summary, *budgets.incremental))) or "none"
    raise ValueError(f"topic must be a configured one ({known}), got {topic!r}")


def fold(
    context: ParticipantContext, operations: Sequence[Operation] | Mapping[str, Any]
) -> ParticipantContext:
    """Return the context after the operations, folded in one after the other; the reducer of a thread.

    Nothing given is changed. An operation that adds what is there already, or compacts what is there no more,
    changes nothing: each can be folded in twice, so a commit can be tried again.

    Args:
        context: A participant's context as stored; of an older schema version, it is migrated.
        operations: What to do, in this order; or a whole context, as a person has edited it.

    Raises:
        ContextSchemaError: The stored context is damaged or of a newer version.
        ValueError: The edited context breaks a rule.
    """
    if isinstance(operations, Mapping):
        return edited(load(context), operations)
    return reduce(_apply, operations, load(context))


def decided(context: ParticipantContext, operations: Sequence[Operation]) -> list[Operation]:
    """Return operations that do the same, and for which the identities that are not archived are enough.

    Args:
        context: A participant's context with all identities in it.
        operations: What to do, in this order.
    """
    found: list[Operation] = []
    for operation in operations:
        if operation["op"] == "reconcile":
            operation = _additions(context, operation)
        if operation["op"] == "record":
            operation = _unrecorded(context, operation)
        context = _apply(context, operation)
        found.append(operation)
    return found


def archive(context: ParticipantContext, archive_id: str) -> tuple[Archive, MoveIdentities]:
    """Return an archive of all identities of a context, and the operation that leaves them to it.

    Args:
        context: A participant's context with all identities in it.
        archive_id: The id of the archive, which the new one is longer than; a new id if there is none.
    """
    identities = context["identities"]
    archived: Archived = {"id": archive_id, "count": len(identities) // LENGTH}
    return {"id": archive_id, "identities": identities}, {"op": "archive", "archived": archived}


def adds_to(context: ParticipantContext, operations: Sequence[Operation]) -> bool:
    """Tell whether a context has an entry that one of the operations adds: whether they have been folded in."""
    entries = [*context["dialogue"]["entries"], *context["states"].values()]
    ids = {entry["id"] for found in context["topics"].values() for entry in found["entries"]}
    return not ids.union(entry["id"] for entry in entries).isdisjoint(_new_ids(operations))


def _new_ids(operations: Sequence[Operation]) -> Iterator[str]:
    for operation in operations:
        match operation["op"]:
            case "record":
                yield from (exchange["id"] for exchange in operation["exchanges"])
            case "reconcile":
                yield from (past["id"] for past in operation["window"])
            case "append" | "replace":
                yield operation["update"]["id"]


def _apply(context: ParticipantContext, operation: Operation) -> ParticipantContext:
    match operation["op"]:
        case "record":
            return _record(context, operation)
        case "reconcile":
            return _record(context, _additions(context, operation))
        case "append":
            notes, new = section(context, operation["topic"]), operation["update"]
            if any(old["id"] == new["id"] for old in notes["entries"]):
                return context
            return _with_section(context, operation["topic"], _inserted(notes, [new]))
        case "replace":
            return {**context, "states": {**context["states"], operation["topic"]: operation["update"]}}
        case "compact":
            return _compact(context, operation)
        case "archive":
            return _without_archived(context, operation["archived"])
        case "clear":
            return empty()
        case unknown:
            assert_never(unknown)


def _record(context: ParticipantContext, operation: Record) -> ParticipantContext:
    new = _unrecorded(context, operation)
    if not new["exchanges"]:
        return context
    return {
        **context,
        "dialogue": _inserted(context["dialogue"], new["exchanges"]),
        "identities": context["identities"] + "".join(new["identities"]),
    }


def _unrecorded(context: ParticipantContext, operation: Record) -> Record:
    """Return the operation without the exchanges that are recorded already."""
    ids = {entry["id"] for entry in context["dialogue"]["entries"]}
    turns: set[str] = set()
    new: list[tuple[Exchange, str]] = []
    for exchange, name in zip(operation["exchanges"], operation["identities"], strict=True):
        if exchange["id"] in ids or name in turns or recorded(context["identities"], name):
            continue
        new.append((exchange, name))
        if has_turn(name):
            turns.add(name)
    return {
        "op": "record",
        "exchanges": [exchange for exchange, _ in new],
        "identities": [name for _, name in new],
    }


def _additions(context: ParticipantContext, operation: Reconcile) -> Record:
    """Return what a history window adds, each with the time that it is recorded at."""
    window, new = operation["window"], _new(context, operation)
    first = new[0] if new else len(window)
    before = next((past["time"] for past in reversed(window[:first]) if "time" in past), None)
    after = next((past["time"] for past in window[first:] if "time" in past), None)
    newest = _newest(context["dialogue"])
    # Without a known neighbour what follows in the window tells the time, lest its order be turned round.
    time = (before or newest or after if first else after or newest) or operation["now"]
    exchanges: list[Exchange] = []
    for past in (window[number] for number in new):
        time = past.get("time", time)
        words = Exchange(id=past["id"], time=time, request=past["request"], response=past["response"])
        exchanges.append(with_turn(words, past.get("turn_id")))
    return {
        "op": "record",
        "exchanges": exchanges,
        "identities": [window[number]["identity"] for number in new],
    }


def _new(context: ParticipantContext, operation: Reconcile) -> Sequence[int]:
    window = [past["identity"] for past in operation["window"]]
    if operation.get("unordered"):
        return missing(context["identities"], window)
    return range(unknown_from(context["identities"], window), len(window))


def repeated(context: ParticipantContext, operation: Reconcile) -> int:
    """Return how many exchanges that a history window adds are of those that were recorded before.

    More than one tells of two writers, whose exchanges interleave in the window. One alone may have been said again,
    and counts as none, as all do in a history of messages.
    """
    if operation.get("unordered"):
        return 0
    added = [operation["window"][number]["identity"] for number in _new(context, operation)]
    known = unpacked(context["identities"])
    all_words = {words(name) for name in known}
    words_without_turn = {words(name) for name in known if not has_turn(name)}
    again = sum(words(name) in (words_without_turn if has_turn(name) else all_words) for name in added)
    return again if again > 1 else 0


def _newest(found: Section) -> str | None:
    if found["entries"]:
        return found["entries"][-1]["time"]
    return found["summary"]["end"] if found["summary"] else None


def _compact(context: ParticipantContext, operation: Compact) -> ParticipantContext:
    found = section(context, operation["topic"])
    covered = set(operation["covered"])
    if not covered:
        return context
    built_on = found["summary"]["id"] if found["summary"] else None
    if built_on != operation["built_on"] or not covered <= {entry["id"] for entry in found["entries"]}:
        return context
    kept = [entry for entry in found["entries"] if entry["id"] not in covered]
    return _with_section(context, operation["topic"], {"summary": operation["summary"], "entries": kept})


def _without_archived(context: ParticipantContext, archived: Archived) -> ParticipantContext:
    before = context["archived"]
    count = archived["count"] - (before["count"] if before else 0)
    of_another = before is not None and before["id"] != archived["id"]
    if of_another or not 0 < count <= len(context["identities"]) // LENGTH:
        return context
    return {**context, "archived": archived, "identities": context["identities"][count * LENGTH :]}


def _inserted(found: Section, new: Iterable[Entry]) -> Section:
    """Return the section with new entries in prompt order."""
    entries = [*found["entries"]]
    for entry in new:
        insort(entries, entry, key=lambda each: instant(each["time"]))
    return {**found, "entries": entries}


def _with_section(context: ParticipantContext, topic: str | None, changed: Section) -> ParticipantContext:
    if topic is None:
        return {**context, "dialogue": changed}
    return {**context, "topics": {**context["topics"], topic: changed}}


__all__ = [
    "LONGEST_TURN",
    "Append",
    "Clear",
    "Compact",
    "MoveIdentities",
    "Operation",
    "PastExchange",
    "Reconcile",
    "Record",
    "Replace",
    "adds_to",
    "archive",
    "decided",
    "fold",
    "record",
    "repeated",
    "update",
    "with_turn",
]
