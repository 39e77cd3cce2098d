# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A context that a person has edited: taken as it is if it keeps every rule, and refused if not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise

from xr_ai_conversation.state.context import (
    ContextSchemaError,
    Entry,
    ParticipantContext,
    Section,
    Summary,
    empty,
    load,
)
from xr_ai_conversation.state.text import clean, visible
from xr_ai_conversation.state.times import instant


def edited(context: ParticipantContext, proposed: object) -> ParticipantContext:
    """Return an edited context in the place of the one that it was made of.

    Texts, times, entries, summaries and states may be changed, added and taken out. What is known of exchanges long
    ago, their identities, may not be taken out: a router's history would bring them again.

    Args:
        context: As it was.
        proposed: The whole of it as it is to be; of an older schema version, it is migrated.

    Raises:
        ValueError: It breaks a rule; the message says which, and where.
    """
    if not proposed and context != empty():
        raise ValueError("an edit must give the whole context, got an empty one; a run with forget forgets")
    try:
        found = load(proposed)
    except ContextSchemaError as error:
        raise ValueError(f"the edit is refused: {error}") from None
    for fault in chain(_sections(found), _ids(found), _identities(context, found)):
        raise ValueError(f"the edit is refused: {fault}")
    return found


def _sections(found: ParticipantContext) -> Iterator[str]:
    yield from _section("dialogue", found["dialogue"], "request")
    for topic, one in found["topics"].items():
        yield from _section(f"topics.{topic}", one, "text")
    for topic, state in found["states"].items():
        yield from _text(f"states.{topic}.text", state["text"])


def _section(where: str, found: Section, said: str) -> Iterator[str]:
    if found["summary"]:
        yield from _summary(f"{where}.summary", found["summary"])
    for number, entry in enumerate(found["entries"]):
        if said not in entry:
            kind = "an exchange, with request and response" if said == "request" else "an update, with text"
            yield f"{where}.entries.{number} must be {kind}"
        else:
            yield from _entry(f"{where}.entries.{number}", entry)
    for number, (one, after) in enumerate(pairwise(found["entries"])):
        if instant(after["time"]) < instant(one["time"]):
            yield (
                f"{where}.entries must be in the order of their times, "
                f"{number + 1} is at {after['time']} after {one['time']}"
            )


def _entry(where: str, entry: Entry) -> Iterator[str]:
    if "request" in entry:
        yield from _text(f"{where}.request", entry["request"])
        if entry["response"] or not entry.get("interrupted"):
            yield from _text(f"{where}.response", entry["response"])
    else:
        yield from _text(f"{where}.text", entry["text"])


def _summary(where: str, summary: Summary) -> Iterator[str]:
    yield from _text(f"{where}.text", summary["text"])
    if instant(summary["start"]) > instant(summary["end"]):
        yield f"{where} must not start after its end, got {summary['start']} to {summary['end']}"
    if summary["covers"] < 1:
        yield f"{where}.covers must be at least 1, got {summary['covers']}"


def _text(where: str, text: str) -> Iterator[str]:
    if clean(text) != text:
        yield f"{where} must be text that UTF-8 can hold, got lone surrogates"
    elif not visible(text):
        yield f"{where} must not be blank"


def _ids(found: ParticipantContext) -> Iterator[str]:
    sections = (found["dialogue"], *found["topics"].values())
    entries = [entry["id"] for one in sections for entry in one["entries"]]
    summaries = [one["summary"]["id"] for one in sections if one["summary"]]
    entries += [state["id"] for state in found["states"].values()]
    for kind, ids in (("entries", entries), ("summaries", summaries)):
        for name, times in Counter(ids).items():
            if not name or times > 1:
                yield f"the ids of {kind} must be unique and not empty, got {name!r} {times} times"


def _identities(context: ParticipantContext, found: ParticipantContext) -> Iterator[str]:
    if found["archived"] != context["archived"] or not found["identities"].startswith(context["identities"]):
        yield "identities and archived must hold all that they held; only forget takes exchanges out of them"


__all__ = ["edited"]
