# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""An exchange is known again by its words and its turn, and a router's history adds only what is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import at, broken, compact, exchange, many, told_nothing

from xr_ai_conversation.state.context import ParticipantContext, section
from xr_ai_conversation.state.identity import LENGTH, identity, missing, recorded, same, unknown_from
from xr_ai_conversation.state.operations import Operation, PastExchange, Reconcile, fold, record, repeated


@dataclass(frozen=True)
class Said:
    """An exchange as a router has it."""

    request: str
    response: str
    turn: str | None = None

    @property
    def identity(self) -> str:
        return identity(self.request, self.response, self.turn)


def alike(one: Said, other: Said) -> bool:
    """Tell by the words themselves whether two exchanges are the same."""
    return (
        (one.request, one.response) == (other.request, other.response)
        and (one.turn == other.turn or not one.turn or not other.turn)
    )  # fmt: skip


def naively_known(known: Sequence[Said], window: Sequence[Said]) -> int:
    """Return how much of a window is known, by the rule as it is written."""

    def equal(one: Sequence[Said], other: Sequence[Said]) -> bool:
        return len(one) == len(other) and all(map(alike, one, other))

    ends = [count for count in range(1, len(window) + 1) if equal(known[-count:], window[:count])]
    if ends:
        return max(ends)
    runs = range(len(known) - len(window) + 1)
    stale = len(window) >= 2 and any(equal(known[run : run + len(window)], window) for run in runs)
    return len(window) if stale else 0


def packed(said: Sequence[Said]) -> str:
    return "".join(one.identity for one in said)


def history(said: Sequence[Said], name: str, time: str | None = None) -> Reconcile:
    """Return the operation that takes in a window of a router's history."""
    window: list[PastExchange] = []
    for number, one in enumerate(said):
        past: PastExchange = {
            "id": f"{name}-{number}",
            "request": one.request,
            "response": one.response,
            "identity": one.identity,
        }
        if time is not None:
            past["time"] = time
        window.append(past)
    return {"op": "reconcile", "window": window, "now": at(0)}


def words(context: ParticipantContext) -> list[tuple[str, str]]:
    return [
        (entry["request"], entry["response"])
        for entry in section(context, None)["entries"]
        if "request" in entry
    ]


few_words = st.builds(
    Said,
    st.sampled_from(("yes", "no")),
    st.sampled_from(("ok", "")),
    st.sampled_from((None, None, "t1", "t2")),
)
"""So few that windows repeat, overlap and mislead."""


@many
@given(broken(), broken(), st.none() | broken())
def test_an_identity_has_sixteen_characters_for_any_words(
    request_: str, response: str, turn: str | None
) -> None:
    name = identity(request_, response, turn)
    assert len(name.encode("ascii")) == LENGTH == 16
    assert name == identity(request_, response, turn)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Said("a", "b"), Said("ab", "")),
        (Said("", "ab"), Said("a", "b")),
        (Said("a", "b"), Said("b", "a")),
        (Said("a", "b"), Said("a", "b ")),
        (Said("a", "b", "t1"), Said("a", "b", "t2")),
        (Said("a", "b", "t1"), Said("a", "c", "t1")),
    ],
)
def test_other_words_or_another_turn_are_another_exchange(one: Said, other: Said) -> None:
    assert not same(one.identity, other.identity)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Said("a", "b"), Said("a", "b")),
        (Said("a", "b", "t1"), Said("a", "b", "t1")),
        (Said("a", "b", "t1"), Said("a", "b")),
        (Said("a", "b"), Said("a", "b", "t1")),
        (Said("a", "b", ""), Said("a", "b", "t1")),
    ],
)
def test_the_same_words_are_one_exchange_where_the_turn_is_the_same_or_not_known(
    one: Said, other: Said
) -> None:
    assert same(one.identity, other.identity)


@many
@given(st.lists(few_words, max_size=8), st.lists(few_words, max_size=5))
def test_what_is_known_of_a_window_is_what_the_rule_says(known: list[Said], window: list[Said]) -> None:
    assert unknown_from(packed(known), [one.identity for one in window]) == naively_known(known, window)


@many
@given(st.data(), st.lists(few_words, min_size=1, max_size=8))
def test_the_end_of_what_is_known_adds_nothing(data: st.DataObject, known: list[Said]) -> None:
    count = data.draw(st.integers(1, len(known)))
    assert unknown_from(packed(known), [one.identity for one in known[-count:]]) == count


@many
@given(st.data(), st.lists(few_words, min_size=2, max_size=8, unique=True))
def test_a_stale_window_from_the_middle_adds_nothing(data: st.DataObject, known: list[Said]) -> None:
    start = data.draw(st.integers(0, len(known) - 2))
    end = data.draw(st.integers(start + 2, len(known)))
    window = [one.identity for one in known[start:end]]
    count = unknown_from(packed(known), window)
    assert count == naively_known(known, known[start:end])
    if all(one.turn for one in known):
        assert count == len(window)


@many
@given(st.lists(few_words, max_size=8), few_words)
def test_an_exchange_is_recorded_already_only_by_turn_and_words(known: list[Said], new: Said) -> None:
    assert recorded(packed(known), new.identity) == (new.turn is not None and new in known)


@pytest.mark.parametrize("shift", range(1, LENGTH))
def test_an_identity_is_found_only_where_one_begins(shift: int) -> None:
    name = Said("a", "b", "t").identity
    misplaced = "x" * shift + name + name + "x" * (LENGTH - shift)
    assert not recorded(misplaced, name)
    assert unknown_from(misplaced, [name, name]) == 0
    assert recorded(misplaced + name, name)


def test_a_genuine_repeat_is_recorded_live_again_but_not_the_same_turn() -> None:
    said = exchange(1, "yes", "ok"), exchange(2, "yes", "ok"), exchange(3, "yes", "ok")
    without = fold(told_nothing(), [record(one) for one in said])
    assert words(without) == [("yes", "ok")] * 3
    turns = fold(
        told_nothing(), [record(one, turn) for one, turn in zip(said, ("t1", "t2", "t1"), strict=True)]
    )
    assert [entry["id"] for entry in turns["dialogue"]["entries"]] == ["x1", "x2"]


def test_the_same_turn_with_another_answer_is_another_exchange() -> None:
    told = fold(told_nothing(), [record(exchange(1, "a", "b"), "t"), record(exchange(2, "a", "c"), "t")])
    assert words(told) == [("a", "b"), ("a", "c")]


def test_a_third_yes_hidden_in_a_window_of_two_counts_as_known_and_one_with_its_turn_does_not() -> None:
    known = [Said("yes", "ok"), Said("yes", "ok")]
    assert unknown_from(packed(known), [one.identity for one in known]) == 2
    turns = [Said("yes", "ok", "t1"), Said("yes", "ok", "t2")]
    later = [Said("yes", "ok", "t2"), Said("yes", "ok", "t3")]
    assert unknown_from(packed(turns), [one.identity for one in later]) == 1


def test_one_exchange_from_the_middle_is_no_stale_window() -> None:
    known = [Said("a", "1"), Said("yes", "ok"), Said("b", "2")]
    assert unknown_from(packed(known), [known[1].identity]) == 0


distinct = st.integers(0, 12).map(lambda count: [Said(f"q{n}", f"a{n}") for n in range(count)])
by_turn = st.lists(st.tuples(st.sampled_from("yn"), st.sampled_from(("ok", "no"))), max_size=12).map(
    lambda pairs: [Said(request, response, f"turn-{n}") for n, (request, response) in enumerate(pairs)]
)


@many
@given(st.data(), distinct | by_turn, st.integers(1, 6))
def test_windows_of_a_growing_history_give_it_once_in_any_chunking(
    data: st.DataObject, said: list[Said], width: int
) -> None:
    context, end = told_nothing(), 0
    while end < len(said):
        end = min(len(said), end + data.draw(st.integers(1, width)))
        context = fold(context, [history(said[max(0, end - width) : end], f"w{end}")])
    assert words(context) == [(one.request, one.response) for one in said]
    assert context["identities"] == packed(said)


@many
@given(st.data(), by_turn, st.integers(1, 6), st.booleans())
def test_history_and_live_records_of_the_same_turns_are_one(
    data: st.DataObject, said: list[Said], width: int, forgetful: bool
) -> None:
    context = told_nothing()
    for end, one in enumerate(said, start=1):
        live = record(exchange(end, one.request, one.response), one.turn)
        seen = said[max(0, end - width) : end]
        if forgetful:  # a router without turn ids, whose history comes after the live record
            seen = [Said(past.request, past.response) for past in seen]
            context = fold(context, [live, history(seen, f"w{end}")])
        else:
            operations: list[Operation] = [live, history(seen, f"w{end}")]
            both = data.draw(st.permutations(operations))
            context = fold(context, both[: data.draw(st.integers(1, 2))])
    assert words(context) == [(one.request, one.response) for one in said]


@many
@given(st.data(), distinct | by_turn)
def test_a_window_replayed_after_compactions_adds_nothing(data: st.DataObject, said: list[Said]) -> None:
    context = told_nothing()
    for number, one in enumerate(said):
        context = fold(context, [record(exchange(number, one.request, one.response), one.turn)])
        found = context["dialogue"]
        if data.draw(st.booleans()) and found["entries"][:-1]:
            covered = found["entries"][:-1]
            context = fold(context, [compact(covered, f"s{number}", built_on=found["summary"])])
    start = data.draw(st.integers(0, len(said)))
    end = data.draw(st.sampled_from((len(said), min(len(said), start + 4))))
    if end - start < 2 and end != len(said):
        return
    assert fold(context, [history(said[start:end], "again")]) == context


def test_a_window_longer_than_what_is_known_adds_its_rest_in_order() -> None:
    said = [Said(f"q{n}", f"a{n}") for n in range(6)]
    context = fold(told_nothing(), [history(said[:3], "one"), history(said[1:], "two")])
    assert words(context) == [(one.request, one.response) for one in said]


def test_a_history_exchange_without_a_time_takes_that_of_its_known_neighbour() -> None:
    said = [Said("q0", "a0"), Said("q1", "a1"), Said("q2", "a2")]
    context = fold(told_nothing(), [history(said[:1], "one", at(100)), history(said, "two")])
    assert [entry["time"] for entry in context["dialogue"]["entries"]] == [at(100)] * 3


def test_the_neighbour_may_be_compacted_by_now() -> None:
    context = fold(told_nothing(), [history([Said("q0", "a0")], "one", at(100))])
    context = fold(context, [compact(context["dialogue"]["entries"], "s")])
    context = fold(context, [history([Said("q0", "a0"), Said("q1", "a1")], "two")])
    assert [entry["time"] for entry in context["dialogue"]["entries"]] == [at(100)]


def test_a_first_history_without_times_is_of_now() -> None:
    context = fold(told_nothing(), [history([Said("q0", "a0"), Said("q1", "a1")], "one")])
    assert [entry["time"] for entry in context["dialogue"]["entries"]] == [at(0), at(0)]
    assert words(context) == [("q0", "a0"), ("q1", "a1")]


@many
@given(
    st.lists(st.booleans(), min_size=1, max_size=6),
    st.none() | st.integers(0, 1000),
)
def test_a_window_keeps_its_order_where_only_some_of_it_has_times(
    timed: list[bool], earlier: int | None
) -> None:
    said = [Said(f"q{n}", f"a{n}") for n in range(len(timed))]
    operation = history(said, "w")
    for number, (past, has) in enumerate(zip(operation["window"], timed, strict=True)):
        if has:
            past["time"] = at(100 * number)
    start = told_nothing()
    if earlier is not None:  # something that this window does not show
        start = fold(start, [record(exchange(0, "before", "it", time=at(earlier)))])
    assert [pair for pair in words(fold(start, [operation])) if pair != ("before", "it")] == [
        (one.request, one.response) for one in said
    ]


@many
@given(st.lists(few_words, max_size=8), st.lists(few_words, max_size=8))
def test_what_a_window_adds_again_is_counted_if_it_is_more_than_one(
    known: list[Said], window: list[Said]
) -> None:
    context: ParticipantContext = {**told_nothing(), "identities": packed(known)}
    new = window[naively_known(known, window) :]
    again = sum(
        any((alike(one, old) and one != old) or (one == old and not one.turn) for old in known) for one in new
    )
    assert repeated(context, history(window, "h")) == (again if again > 1 else 0)


def test_a_history_with_turn_ids_adds_nothing_again_however_writers_interleave() -> None:
    said = [Said(f"q{number}", "ok", f"t{number}") for number in range(6)]
    context: ParticipantContext = {**told_nothing(), "identities": packed(said)}
    window = history([said[4], Said("other", "ok", "o"), said[1], said[5]], "h")
    assert repeated(context, window) == 0
    assert words(fold(context, [window])) == [("other", "ok")]


@many
@given(st.lists(few_words, max_size=8), st.lists(few_words, max_size=8))
def test_a_history_of_messages_leaves_each_exchange_known_as_often_as_it_is_there_and_no_oftener(
    known: list[Said], window: list[Said]
) -> None:
    def often(said: list[Said]) -> Counter[tuple[str, str]]:
        return Counter((one.request, one.response) for one in said)

    context: ParticipantContext = {**told_nothing(), "identities": packed(known)}
    operation: Reconcile = {
        **history([replace(one, turn=None) for one in window], "h"),
        "unordered": True,
    }
    after = fold(context, [operation])
    assert Counter(words(after)) == often(window) - often(known)
    assert repeated(context, operation) == 0
    assert fold(after, [operation]) == after


def test_only_a_whole_identity_tells_that_an_exchange_of_a_history_of_messages_was_recorded() -> None:
    name = Said("a", "b").identity
    assert missing("x" + name + "x" * (LENGTH - 1), [name]) == [0]
    assert missing(name, [name, name]) == [1]
