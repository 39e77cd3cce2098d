# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A stored context is loaded as it was, migrated, or refused with the place of the damage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import at, compact, dialogue, exchange, note, situations, some, told_nothing

from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.context import SCHEMA_VERSION, ContextSchemaError, empty, load
from xr_ai_conversation.state.operations import archive, fold, record, update

SECRET = "the door code is 4711"

Json: TypeAlias = dict[str, Any]
"""Stored JSON, some of it damaged, so of no static type."""


def sample() -> Json:
    """Return a context in which every kind of value stands."""
    budgets = Budgets.of(summary_topics=["scene"], incremental_topics=["notes"])
    interrupted = exchange(2, SECRET, SECRET)
    interrupted["interrupted"] = True
    answered = exchange(3, SECRET, SECRET)
    answered["basis"] = {"checkpoint": SECRET, "told": at(1), "window": SECRET, "digest": SECRET}
    context = fold(
        told_nothing(),
        [
            record(exchange(1, SECRET, SECRET), "t1"),
            record(interrupted),
            update(budgets, "n1", at(0), "notes", SECRET),
            update(budgets, "n2", at(1), "notes", SECRET),
            compact([note(1, SECRET)], "s1", topic="notes", text=SECRET),
            update(budgets, "n3", at(1), "scene", SECRET),
        ],
    )
    _, leave = archive(context, "a1")
    context = fold(context, [leave, record(answered, "t3")])
    loaded: Json = json.loads(json.dumps(context))
    return loaded


Place: TypeAlias = tuple[str | int, ...]

FREE: set[Place] = {(), ("topics",), ("states",)}
"""Mappings whose keys are chosen by the application, but for the whole."""


def mappings(value: object, place: Place = ()) -> Iterator[tuple[Place, Json]]:
    """Yield every mapping of stored JSON with its place."""
    if isinstance(value, dict):
        yield place, value
        for key, inner in value.items():
            yield from mappings(inner, (*place, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from mappings(inner, (*place, number))


def at_place(stored: Json, place: Place) -> Json:
    found: Any = stored
    for step in place:
        found = found[step]
    assert isinstance(found, dict)
    return found


FIELDS = [
    (place, key)
    for place, value in mappings(sample())
    if place not in (("topics",), ("states",))
    for key in value
]
RECORDS = [place for place, _ in mappings(sample()) if place not in (("topics",), ("states",))]


def refusal(stored: object) -> str:
    """Return what is said of a stored value that is refused; it is left as it was and not told."""
    before = deepcopy(stored)
    with pytest.raises(ContextSchemaError) as caught:
        load(stored)
    assert stored == before
    said = str(caught.value)
    assert SECRET not in said
    said = said.removeprefix("the stored context ")
    assert SECRET not in repr(caught.value.__cause__)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return said


def test_the_sample_is_in_order_and_has_every_kind_of_value() -> None:
    assert load(sample()) == sample()
    assert len(FIELDS) == 43


@pytest.mark.parametrize("stored", [None, {}])
def test_nothing_stored_is_an_empty_context(stored: object) -> None:
    assert load(stored) == empty() == told_nothing()


@pytest.mark.parametrize(("place", "key"), FIELDS)
def test_a_missing_value_is_refused(place: Place, key: str) -> None:
    stored = sample()
    del at_place(stored, place)[key]
    if key in ("interrupted", "turn_id", "basis", "told", "window"):
        assert load(stored) == stored
    else:
        assert key in refusal(stored)


WRONG: tuple[object, ...] = (None, 7, 1.5, True, SECRET, [SECRET], {SECRET: SECRET}, b"x")


@pytest.mark.parametrize(("place", "key"), FIELDS)
def test_a_value_of_another_kind_is_refused(place: Place, key: str) -> None:
    right = at_place(sample(), place)[key]
    kinds = (dict, type(None)) if key in ("summary", "archived") else (type(right),)
    for wrong in WRONG:
        if type(wrong) in kinds and key not in CHECKED and not isinstance(wrong, dict | list):
            continue
        stored = sample()
        at_place(stored, place)[key] = wrong
        if isinstance(wrong, dict):  # the place that is named is one of its own keys
            with pytest.raises(ContextSchemaError):
                load(stored)
        else:
            assert key in refusal(stored)


CHECKED = {"time", "start", "end", "told", "identities", "schema_version"}
"""Of these not every value of the right type will do."""


@pytest.mark.parametrize("place", RECORDS)
def test_an_unknown_key_is_refused(place: Place) -> None:
    stored = sample()
    at_place(stored, place)["colour"] = SECRET
    assert "colour" in refusal(stored)


NO_TIMES = (
    "",
    SECRET,
    "2026-03-02",
    "2026-03-02T14:00:00.000000",
    "2026-03-02T14:00:00+01:00",
    "2026-13-02T14:00:00.000000+01:00",
    "2026-03-02T25:00:00.000000+01:00",
    "2026-03-02 14:00:00.000000+01:00",
    "2026-03-02T14:00:00.000000+01:00 and more",
)


@pytest.mark.parametrize(
    ("place", "key"), [(place, key) for place, key in FIELDS if key in ("time", "start", "end")]
)
def test_a_time_that_is_no_time_with_a_zone_is_refused(place: Place, key: str) -> None:
    for time in NO_TIMES:
        stored = sample()
        at_place(stored, place)[key] = time
        assert key in refusal(stored)


@pytest.mark.parametrize("length", [1, 15, 17, 31])
def test_identities_that_are_not_whole_are_refused(length: int) -> None:
    assert "identities" in refusal({**sample(), "identities": "A" * length})


@pytest.mark.parametrize(
    "stored", [[], [SECRET], SECRET, 7, True, {"dialogue": SECRET}, {"schema_version": SECRET}]
)
def test_a_value_without_a_schema_version_is_refused(stored: object) -> None:
    assert f"schema_version up to {SCHEMA_VERSION}, found none" in refusal(stored)


@pytest.mark.parametrize("newer", [1, 2, 1000])
def test_a_context_of_a_newer_version_is_refused_and_says_what_to_do(newer: int) -> None:
    said = refusal({**sample(), "schema_version": SCHEMA_VERSION + newer})
    assert (
        f"schema_version {SCHEMA_VERSION + newer}, this software reads up to {SCHEMA_VERSION}; update" in said
    )


@pytest.mark.parametrize("older", [0, -1, -(10**12)])
def test_a_context_of_a_version_that_never_was_is_refused(older: int) -> None:
    assert f"schema_version {older}, which is not known" in refusal({**sample(), "schema_version": older})


def first_to_second(stored: Json) -> Json:
    return {**stored, "states": stored["state_of_topic"]}


def second_to_third(stored: Json) -> Json:
    older = {"state_of_topic", "remark"}
    return {key: value for key, value in stored.items() if key not in older}


STEPS = {SCHEMA_VERSION - 2: first_to_second, SCHEMA_VERSION - 1: second_to_third}


def old() -> Json:
    """Return a context as two versions ago it was stored."""
    stored = sample()
    stored["state_of_topic"] = stored.pop("states")
    return {**stored, "remark": SECRET, "schema_version": SCHEMA_VERSION - 2}


def test_an_older_context_is_taken_through_every_version() -> None:
    stored = old()
    assert load(stored, migrations=STEPS) == sample()
    assert stored == old()


def test_a_migration_that_is_missing_is_told() -> None:
    with pytest.raises(ContextSchemaError, match=f"schema_version {SCHEMA_VERSION - 2}, which is not known"):
        load(old(), migrations={SCHEMA_VERSION - 2: first_to_second})


def test_what_a_migration_makes_is_checked() -> None:
    with pytest.raises(ContextSchemaError, match="damaged at"):
        load(old(), migrations={**STEPS, SCHEMA_VERSION - 1: lambda stored: stored})


@pytest.mark.parametrize(
    "error", [KeyError(SECRET), TypeError(SECRET), ValueError(SECRET), IndexError(SECRET)]
)
def test_a_migration_that_fails_on_damaged_data_is_told_without_the_data(error: Exception) -> None:
    def fails(_: Json) -> Json:
        raise error

    with pytest.raises(ContextSchemaError, match=f"damaged.* schema_version {SCHEMA_VERSION - 2}") as caught:
        load(old(), migrations={**STEPS, SCHEMA_VERSION - 2: fails})
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


@some
@given(situations())
def test_every_context_is_loaded_as_it_is_and_shares_nothing_with_what_was_stored(
    situation: tuple[Any, Budgets],
) -> None:
    stored = json.loads(json.dumps(situation[0]))
    loaded = load(stored)
    assert loaded == situation[0]
    loaded["dialogue"]["entries"].clear()
    loaded["topics"].clear()
    assert stored == situation[0]


@some
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(), x, max_size=3),
    )
)
def test_any_other_json_is_refused_as_such(stored: object) -> None:
    if stored is None or stored == {}:
        return
    with pytest.raises(ContextSchemaError):
        load(stored)
    if isinstance(stored, dict):
        with pytest.raises(ContextSchemaError):
            load({**stored, "schema_version": SCHEMA_VERSION})


@pytest.mark.parametrize("stored", [{"schema_version": 3}, SECRET, {"schema_version": 2}])
def test_nothing_is_folded_into_a_context_that_cannot_be_read_but_that_it_is_forgotten(stored: Any) -> None:
    with pytest.raises(ContextSchemaError):
        fold(stored, [record(exchange(1))])
    assert fold(stored, [{"op": "clear"}, record(exchange(1))]) == dialogue(exchange(1))
