# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Whatever is folded in, in whatever order: nothing is lost, doubled or put out of order."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import at, broken, compact, dialogue, exchange, many, note, some, stamps, told_nothing

from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.context import (
    Archive,
    Archived,
    ContextSchemaError,
    Entry,
    ParticipantContext,
    load,
    section,
    with_archived,
)
from xr_ai_conversation.state.operations import Operation, archive, decided, fold, record, update
from xr_ai_conversation.state.times import instant, stamp

BUDGETS = Budgets.of(summary_topics=["scene"], incremental_topics=["notes"])

Step: TypeAlias = tuple[str, str, int]
"""What happens next, at which recorded time, and a number for what there is to choose."""

KINDS = 2 * ["record", "append", "begin", "finish"] + ["history", "interrupted", "replace", "again", "clear"]

steps = st.lists(st.tuples(st.sampled_from(KINDS), stamps(20), st.integers(0, 5)), max_size=25)


@dataclass
class Session:
    """Folds what happens into a context, and keeps its own simple books of what must be in it."""

    context: ParticipantContext = field(default_factory=told_nothing)
    folded: list[Operation] = field(default_factory=list)
    running: list[Operation] = field(default_factory=list)
    """Compactions whose model call has not come back."""
    told: dict[str | None, list[str]] = field(default_factory=lambda: {None: [], "notes": []})
    """Ids of all entries since the last clear, by section, in the order of commit."""
    gone: dict[str | None, list[str]] = field(default_factory=lambda: {None: [], "notes": []})
    """Ids of those that a summary stands for."""
    state: str | None = None
    interrupted: int = 0
    """How many of the exchanges were cut short."""

    def play(self, number: int, step: Step) -> None:
        kind, time, choice = step
        topic = None if choice % 2 else "notes"
        match kind:
            case "record":
                self.told[None].append(f"x{number}")
                self.fold(record(exchange(number, f"q{number}", time=time), f"turn-{number}"))
            case "history":
                ids = [f"h{number}-{index}" for index in range(choice)]
                self.told[None].extend(ids)
                window = [record(exchange(0, one), one) for one in ids]
                self.fold(
                    {
                        "op": "reconcile",
                        "now": time,
                        "window": [
                            {
                                "id": one,
                                "request": one,
                                "response": "answer",
                                "identity": past["identities"][0],
                            }
                            for one, past in zip(ids, window, strict=True)
                        ],
                    }
                )
            case "interrupted":
                self.told[None].append(f"i{number}")
                self.interrupted += 1
                cut_short = exchange(number, f"q{number}", time=time)
                self.fold(record({**cut_short, "id": f"i{number}", "interrupted": True}, f"turn-{number}"))
            case "append":
                self.told["notes"].append(f"n{number}")
                self.fold(update(BUDGETS, f"n{number}", time, "notes", f"note {number}"))
            case "replace":
                self.state = f"n{number}"
                self.fold(update(BUDGETS, self.state, time, "scene", f"scene {number}"))
            case "begin":
                found = section(self.context, topic)
                if covered := found["entries"][: choice + 1]:
                    built_on = found["summary"]
                    self.running.append(compact(covered, f"s{number}", topic=topic, built_on=built_on))
            case "finish":
                if self.running:
                    self.finish(self.running.pop(choice % len(self.running)))
            case "again":
                if self.folded:
                    self.context = fold(self.context, [self.folded[-1]])
            case "clear":
                self.__init__(running=self.running, folded=self.folded)  # type: ignore[misc]
                self.fold({"op": "clear"})

    def finish(self, operation: Operation) -> None:
        assert operation["op"] == "compact"
        topic, covered = operation["topic"], operation["covered"]
        before = section(self.context, topic)
        there = {entry["id"] for entry in before["entries"]}
        current = before["summary"]["id"] if before["summary"] else None
        if set(covered) <= there and operation["built_on"] == current:
            self.gone[topic].extend(covered)
            self.fold(operation)
            assert section(self.context, topic)["summary"] == operation["summary"]
        else:
            self.fold(operation)
            assert section(self.context, topic) == before

    def fold(self, operation: Operation) -> None:
        self.context = fold(self.context, [operation])
        self.folded.append(operation)


def played(script: list[Step]) -> Session:
    session = Session()
    for number, step in enumerate(script):
        session.play(number, step)
    return session


@some
@given(steps)
def test_nothing_is_lost_or_doubled_by_any_order_of_operations(script: list[Step]) -> None:
    session = played(script)
    for topic in (None, "notes"):
        found = section(session.context, topic)
        ids = [entry["id"] for entry in found["entries"]]
        assert sorted(ids + session.gone[topic]) == sorted(session.told[topic])
        assert (found["summary"]["covers"] if found["summary"] else 0) == len(session.gone[topic])
    state = session.context["states"].get("scene")
    assert (state["id"] if state else None) == session.state


@some
@given(steps)
def test_entries_stand_in_the_order_of_their_times_and_equal_times_in_that_of_commit(
    script: list[Step],
) -> None:
    session = played(script)
    for topic in (None, "notes"):
        entries = section(session.context, topic)["entries"]
        committed = session.told[topic]
        keys = [(instant(entry["time"]), committed.index(entry["id"])) for entry in entries]
        assert keys == sorted(keys)


@some
@given(steps)
def test_every_completed_exchange_ever_recorded_keeps_its_identity(script: list[Step]) -> None:
    session = played(script)
    assert len(session.context["identities"]) == 16 * (len(session.told[None]) - session.interrupted)


@some
@given(steps)
def test_folding_changes_nothing_that_it_is_given(script: list[Step]) -> None:
    session = played(script)
    operations = session.folded + session.running
    before = deepcopy((session.context, operations))
    fold(session.context, operations)
    fold(told_nothing(), operations)
    assert (session.context, operations) == before


@some
@given(steps)
def test_every_operation_folded_in_twice_is_folded_in_once(script: list[Step]) -> None:
    context = told_nothing()
    for operation in played(script).folded:
        once = fold(context, [operation])
        assert fold(once, [operation]) == once
        assert fold(context, [operation, operation]) == once
        context = once


@some
@given(steps)
def test_a_batch_without_compaction_folded_in_twice_is_folded_in_once(script: list[Step]) -> None:
    batch = played([step for step in script if step[0] not in ("begin", "finish")]).folded
    once = fold(told_nothing(), batch)
    assert fold(once, batch) == once


@some
@given(steps)
def test_the_same_operations_give_the_same_bytes_however_they_are_batched(script: list[Step]) -> None:
    session = played(script)
    stored = json.dumps(fold(told_nothing(), session.folded))
    assert stored == json.dumps(session.context)
    step_by_step: ParticipantContext = told_nothing()
    for operation in session.folded:
        step_by_step = json.loads(json.dumps(fold(step_by_step, [json.loads(json.dumps(operation))])))
    assert stored == json.dumps(step_by_step)


@some
@given(steps)
def test_a_context_is_plain_json_and_the_same_after_a_round_trip(script: list[Step]) -> None:
    context = played(script).context
    again = json.loads(json.dumps(context))
    assert again == context
    assert load(again) == context


@some
@given(steps, st.lists(st.sampled_from(["stays", "moves", "fails"]), min_size=25))
def test_what_is_archived_is_known_as_if_it_were_not(script: list[Step], moves: list[str]) -> None:
    session = played(script)
    plain, context, found = told_nothing(), told_nothing(), Archive(id="a", identities="")
    for number, (operation, move) in enumerate(zip(session.folded, moves, strict=False)):
        known = with_archived(context, found)
        assert known == plain
        commit = decided(known, [operation])
        if move != "stays":
            archived = context["archived"]
            found, leave = archive(known, archived["id"] if archived else f"a{number}")
            assert fold(fold(context, [leave]), [leave]) == fold(context, [leave])
            if move == "moves":
                commit = [leave, *commit]
        context = fold(context, commit)
        assert fold(context, decided(with_archived(context, found), [operation])) == context
        plain = fold(plain, [operation])
    assert with_archived(context, found) == plain


def test_identities_are_not_left_to_another_archive_nor_more_than_there_are() -> None:
    context = dialogue(*[exchange(number) for number in range(3)])
    kept, leave = archive(context, "a")
    left = fold(context, [leave])
    assert left["identities"] == ""
    assert left["archived"] == {"id": "a", "count": 3}
    for wrong in (Archived(id="a", count=4), Archived(id="a", count=0), Archived(id="a", count=-1)):
        assert fold(context, [{"op": "archive", "archived": wrong}]) == context
    more = fold(left, [record(exchange(4))])
    assert fold(more, [{"op": "archive", "archived": {"id": "b", "count": 4}}]) == more
    for wrong_archive in (
        Archive(id="b", identities=kept["identities"]),
        Archive(id="a", identities="A" * 32),
    ):
        with pytest.raises(ContextSchemaError, match="needs 3 identities of its archive, found"):
            with_archived(left, wrong_archive)


@many
@given(st.data(), st.lists(stamps(600), max_size=8))
def test_the_order_of_commit_does_not_matter_where_times_differ(
    data: st.DataObject, times: list[str]
) -> None:
    different = {instant(time): time for time in times}.values()
    operations = [record(exchange(number, time=time)) for number, time in enumerate(different)]
    shuffled = data.draw(st.permutations(operations))
    assert fold(told_nothing(), shuffled)["dialogue"] == fold(told_nothing(), operations)["dialogue"]


def ids(found: list[Entry]) -> list[str]:
    return [entry["id"] for entry in found]


def test_what_comes_late_with_an_older_time_stands_before() -> None:
    context = dialogue(exchange(1, time=at(3)), exchange(2, time=at(0)), exchange(3, time=at(3)))
    assert ids(context["dialogue"]["entries"]) == ["x2", "x1", "x3"]


def test_times_of_different_zones_stand_in_the_order_of_their_instants() -> None:
    moment = datetime(2026, 3, 2, 9, tzinfo=timezone(timedelta(hours=9)))  # midnight in UTC
    context = dialogue(
        exchange(1, time=stamp(moment)),
        exchange(2, time="2026-03-01T23:59:59.000000+00:00"),
        exchange(3, time="2026-03-01T18:00:00.000000-06:00"),
        exchange(4, time="2026-03-02T00:59:00.000000+01:00"),
    )
    assert ids(context["dialogue"]["entries"]) == ["x4", "x2", "x1", "x3"]


def test_the_two_passes_of_an_hour_when_summer_time_ends_stand_in_their_true_order() -> None:
    second = exchange(1, time="2026-10-25T02:10:00.000000+01:00")
    first = exchange(2, time="2026-10-25T02:50:00.000000+02:00")
    assert ids(dialogue(second, first)["dialogue"]["entries"]) == ["x2", "x1"]


def test_a_compaction_keeps_what_arrived_meanwhile() -> None:
    told = [exchange(number) for number in range(4)]
    before = dialogue(*told)
    operation = compact(before["dialogue"]["entries"][:3], "s1")
    late = exchange(9, time=at(30))  # between what is being compacted
    after = fold(before, [record(exchange(4)), record(late), operation])
    assert ids(after["dialogue"]["entries"]) == ["x9", "x3", "x4"]
    assert after["dialogue"]["summary"] == operation["summary"]  # type: ignore[typeddict-item]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_compaction_whose_entries_are_not_all_there_changes_nothing(missing: int) -> None:
    told = [exchange(number) for number in range(4)]
    operation = compact(told[:3], "s1")
    there = dialogue(*(one for number, one in enumerate(told) if number != missing))
    assert fold(there, [operation]) == there


@pytest.mark.parametrize("built_on", [None, "s0"])
def test_a_compaction_built_on_a_summary_that_is_not_the_current_one_changes_nothing(
    built_on: str | None,
) -> None:
    told = [exchange(number) for number in range(4)]
    there = fold(dialogue(*told), [compact(told[:1], "s0"), compact(told[1:2], "s1", built_on=None)])
    assert there["dialogue"]["summary"] is not None
    assert there["dialogue"]["summary"]["id"] == "s0"
    current = fold(there, [compact(told[1:2], "s1", built_on=there["dialogue"]["summary"])])
    stale = compact(told[2:3], "s2")
    assert stale["op"] == "compact"
    stale["built_on"] = built_on
    assert fold(current, [stale]) == current


def test_a_compaction_that_ends_after_a_clear_brings_nothing_back() -> None:
    told = [exchange(number) for number in range(3)]
    before = dialogue(*told)
    operation = compact(told[:2], "s1")
    after = fold(before, [{"op": "clear"}, record(exchange(7)), record(exchange(8)), operation])
    assert after == dialogue(exchange(7), exchange(8))


def test_a_compaction_touches_no_other_section() -> None:
    context = fold(
        dialogue(exchange(1), exchange(2)),
        [
            update(BUDGETS, "x1", at(0), "notes", "an entry with an id of the dialogue's"),
            update(BUDGETS, "n2", at(0), "scene", "a lamp"),
        ],
    )
    after = fold(context, [compact(context["dialogue"]["entries"][:1], "s1")])
    assert (after["topics"], after["states"]) == (context["topics"], context["states"])
    after = fold(context, [compact(context["topics"]["notes"]["entries"], "s1", topic="notes")])
    assert (after["dialogue"], after["states"]) == (context["dialogue"], context["states"])


def test_clear_forgets_everything() -> None:
    context = fold(
        dialogue(exchange(1)),
        [
            update(BUDGETS, "n1", at(0), "notes", "a note"),
            update(BUDGETS, "n2", at(0), "scene", "a lamp"),
            compact([note(1)], "s1", topic="notes"),
            {"op": "clear"},
        ],
    )
    assert context == told_nothing()


def test_an_update_replaces_only_the_state_of_its_topic() -> None:
    budgets = Budgets.of(summary_topics=["scene", "weather"])
    context = fold(
        told_nothing(),
        [
            update(budgets, "n1", at(5), "scene", "a lamp"),
            update(budgets, "n2", at(6), "weather", "rain"),
            update(budgets, "n3", at(1), "scene", "two lamps"),
        ],
    )
    assert context["states"] == {
        "scene": note(3, "two lamps", time=at(1)),
        "weather": note(2, "rain", time=at(6)),
    }


@many
@given(broken(), broken(), broken())
def test_whatever_surrogates_come_in_the_context_can_be_encoded_and_loaded(
    request_: str, response: str, published: str
) -> None:
    context = fold(
        told_nothing(),
        [
            record(exchange(1, request_, response), "turn"),
            update(BUDGETS, "n1", at(0), "notes", f"seen: {published}"),
            update(BUDGETS, "n2", at(0), "scene", f"seen: {published}"),
        ],
    )
    json.dumps(context, ensure_ascii=False).encode()
    assert load(context) == context


def test_an_exchange_is_the_same_before_and_after_its_surrogates_were_replaced() -> None:
    raw, cleaned = record(exchange(1, "ok \ud83d", "x\udc00")), record(exchange(1, "ok \ufffd", "x\ufffd"))
    assert raw == cleaned


@pytest.mark.parametrize("text", ["", " \n", "\u200b\u2060", "\ufe0f"])
@pytest.mark.parametrize("topic", ["notes", "scene"])
def test_a_blank_update_is_refused(topic: str, text: str) -> None:
    with pytest.raises(
        ValueError, match=f"text of an update on '{topic}' must not be blank, got {len(text)}"
    ):
        update(BUDGETS, "n1", at(0), topic, text)


@pytest.mark.parametrize("topic", ["note", "", "Notes", "dialogue"])
def test_an_update_on_a_topic_that_is_not_configured_is_refused(topic: str) -> None:
    with pytest.raises(
        ValueError, match=f"topic must be a configured one \\('scene', 'notes'\\), got '{topic}'"
    ):
        update(BUDGETS, "n1", at(0), topic, "a note")


def test_without_topics_an_update_is_told_that_there_are_none() -> None:
    with pytest.raises(ValueError, match=r"configured one \(none\), got 'notes'"):
        update(Budgets.of(), "n1", at(0), "notes", "a note")


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time must have a time zone, got 2026-03-02T14:00:00"):
        stamp(datetime(2026, 3, 2, 14))  # noqa: DTZ001 - that is what is refused


@many
@given(stamps(10**8))
def test_a_stored_time_is_the_time_that_was_stored(time: str) -> None:
    assert stamp(instant(time)) == time
    assert instant(time).tzinfo is not None
