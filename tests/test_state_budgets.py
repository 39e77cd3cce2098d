# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A budget that cannot hold is refused with the argument, the value and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import TOPICS, budgets, some

from xr_ai_conversation.state.budgets import LONGEST_TOPIC, REQUEST_MARGIN, Budgets
from xr_ai_conversation.state.render import smallest_budget


def test_the_budgets_of_the_reference_hold_by_default() -> None:
    found = Budgets.of(summary_topics=["window"], incremental_topics=["notes"])
    assert found == Budgets(
        dialogue=8_000, incremental={"notes": 4_000}, summary={"window": 4_000}, compaction_input=12_000
    )


def test_one_value_is_for_every_topic_and_a_mapping_has_one_for_each() -> None:
    found = Budgets.of(
        summary_topics=["sample.monitor-window"],
        incremental_topics=["sample.notes"],
        topic_bytes={"sample.notes": 6_000, "sample.monitor-window": 2_000},
    )
    assert (found.summary, found.incremental) == ({"sample.monitor-window": 2_000}, {"sample.notes": 6_000})
    same = Budgets.of(summary_topics=["a"], incremental_topics=["b", "c"], topic_bytes=1_000)
    assert (same.summary, same.incremental) == ({"a": 1_000}, {"b": 1_000, "c": 1_000})


def test_the_sections_stand_in_the_order_in_which_they_are_configured() -> None:
    found = Budgets.of(incremental_topics=("b", "a", "c"), topic_bytes={"a": 1_000, "b": 2_000, "c": 3_000})
    assert found.sections() == (None, "b", "a", "c")
    assert [found.of_section(topic) for topic in found.sections()] == [8_000, 2_000, 1_000, 3_000]


def test_topics_may_come_from_any_iterable() -> None:
    assert Budgets.of(incremental_topics=iter(["a", "b"])).sections() == (None, "a", "b")
    assert set(
        Budgets.of(incremental_topics={"a": 1, "b": 2}, topic_bytes={"a": 900, "b": 900}).incremental
    ) == {
        "a",
        "b",
    }


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"summary_topics": "notes"}, TypeError, "summary_context_topics must be a collection .* 'notes'"),
        (
            {"incremental_topics": "notes"},
            TypeError,
            "incremental_context_topics must be a collection .* 'notes'",
        ),
        ({"incremental_topics": None}, TypeError, "incremental_context_topics must be a collection .* None"),
        (
            {"summary_topics": 7},
            TypeError,
            "summary_context_topics must be a collection of topic names, got 7",
        ),
        ({"summary_topics": [7]}, TypeError, "summary_context_topics must hold strings, got 7"),
        ({"incremental_topics": [b"x"]}, TypeError, "incremental_context_topics must hold strings, got b'x'"),
        (
            {"incremental_topics": [""]},
            ValueError,
            "incremental_context_topics must hold printable .* got ''",
        ),
        (
            {"incremental_topics": [" "]},
            ValueError,
            "incremental_context_topics must hold printable .* got ' '",
        ),
        ({"summary_topics": ["a\nb"]}, ValueError, r"summary_context_topics .* one line, got 'a\\nb'"),
        (
            {"summary_topics": ["a\u2028b"]},
            ValueError,
            r"summary_context_topics .* one line, got 'a\\u2028b'",
        ),
        ({"summary_topics": ["a\x1b[2J"]}, ValueError, r"summary_context_topics .* printable .* 'a\\x1b"),
        ({"summary_topics": ["a\ud800"]}, ValueError, r"summary_context_topics .* printable .* 'a\\ud800'"),
        ({"summary_topics": ["a\u202eb"]}, ValueError, r"summary_context_topics .* printable .* 'a\\u202eb'"),
        ({"summary_topics": ["x" * 129]}, ValueError, "summary_context_topics .* at most 128 bytes, got 129"),
        ({"summary_topics": ["漢" * 43]}, ValueError, "summary_context_topics .* at most 128 bytes, got 129"),
        (
            {"summary_topics": ["a", "a"]},
            ValueError,
            "topic 'a' is configured twice in summary_context_topics and incremental_context_topics, .* once",
        ),
        (
            {"summary_topics": ["a"], "incremental_topics": ["b", "a"]},
            ValueError,
            "topic 'a' is configured twice",
        ),
        (
            {"summary_topics": ["a"], "incremental_topics": ["b"], "topic_bytes": {"a": 900}},
            ValueError,
            r"topic_budget_bytes must have a value for each topic, none for \['b'\]",
        ),
        (
            {"summary_topics": ["a"], "topic_bytes": {"a": 900, "b": 900}},
            ValueError,
            r"topic_budget_bytes has values for topics not configured: \['b'\]",
        ),
        (
            {"topic_bytes": {"b": 900}},
            ValueError,
            r"topic_budget_bytes has values .* not configured: \['b'\]",
        ),
        ({"dialogue_bytes": 1}, ValueError, "dialogue_budget_bytes must be at least [0-9]+ bytes, got 1"),
        ({"dialogue_bytes": -5}, ValueError, "dialogue_budget_bytes must be at least [0-9]+ bytes, got -5"),
        (
            {"dialogue_bytes": 8_000.0},
            TypeError,
            "dialogue_budget_bytes must be a whole number .* got 8000.0",
        ),
        ({"dialogue_bytes": "8000"}, TypeError, "dialogue_budget_bytes must be a whole number .* got '8000'"),
        ({"dialogue_bytes": True}, TypeError, "dialogue_budget_bytes must be a whole number .* got True"),
        ({"dialogue_bytes": None}, TypeError, "dialogue_budget_bytes must be a whole number .* got None"),
        ({"topic_bytes": 0}, ValueError, "topic_budget_bytes must be at least [0-9]+ bytes, got 0"),
        ({"topic_bytes": None}, TypeError, "topic_budget_bytes must be a whole number .* got None"),
        ({"topic_bytes": 4e3}, TypeError, "topic_budget_bytes must be a whole number .* got 4000.0"),
        (
            {"summary_topics": ["a"], "topic_bytes": 9},
            ValueError,
            "topic_budget_bytes of 'a' must be at least [0-9]+ bytes, got 9",
        ),
        (
            {"incremental_topics": ["a"], "topic_bytes": {"a": 9}},
            ValueError,
            "topic_budget_bytes of 'a' must be at least [0-9]+ bytes, got 9",
        ),
        (
            {"incremental_topics": ["a"], "topic_bytes": {"a": None}},
            TypeError,
            "topic_budget_bytes of 'a' must be a whole number of bytes, got None",
        ),
        (
            {"compaction_input_bytes": 4_255},
            ValueError,
            "compaction_input_budget_bytes must be at least 4256 bytes, got 4255",
        ),
        ({"compaction_input_bytes": 1e4}, TypeError, "compaction_input_budget_bytes must be a whole number"),
    ],
)
def test_bad_budgets_are_refused_by_name_and_value(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Budgets.of(**arguments)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_smallest_budget_is_taken_and_one_byte_less_is_not(topic: str) -> None:
    least, dialogue = smallest_budget(topic), smallest_budget(None)
    for names in ("summary_topics", "incremental_topics"):
        for value in (least, {topic: least}):
            topics: dict[str, Any] = {names: [topic]}
            assert Budgets.of(**topics, topic_bytes=value, dialogue_bytes=dialogue)
        for value in (least - 1, {topic: least - 1}):
            with pytest.raises(ValueError, match=f"must be at least {least} bytes, got {least - 1}"):
                Budgets.of(**topics, topic_bytes=value, dialogue_bytes=dialogue)


def test_the_smallest_budget_of_the_dialogue_is_taken_and_one_byte_less_is_not() -> None:
    least = smallest_budget(None)
    assert Budgets.of(dialogue_bytes=least).dialogue == least
    with pytest.raises(ValueError, match=f"dialogue_budget_bytes must be at least {least} bytes"):
        Budgets.of(dialogue_bytes=least - 1)


@some
@given(st.integers(1_000, 9_999), st.integers(1_000, 9_999), st.integers(1_000, 9_999))
def test_a_compaction_request_must_hold_half_of_the_largest_section_and_a_margin(
    dialogue: int, incremental: int, summary: int
) -> None:
    half = (max(dialogue, incremental, summary) + 1) // 2

    def of(compaction_input: int) -> Budgets:
        return Budgets.of(
            summary_topics=["s"],
            incremental_topics=["i"],
            dialogue_bytes=dialogue,
            topic_bytes={"s": summary, "i": incremental},
            compaction_input_bytes=compaction_input,
        )

    assert REQUEST_MARGIN == 256
    assert of(half + 256).compaction_input == half + 256
    with pytest.raises(
        ValueError, match=f"compaction_input_budget_bytes must be at least {half + 256} bytes"
    ):
        of(half + 255)


def test_a_topic_of_the_longest_name_is_taken() -> None:
    assert LONGEST_TOPIC == 128
    assert Budgets.of(incremental_topics=["x" * 128]).sections() == (None, "x" * 128)


@some
@given(budgets())
def test_what_was_given_can_be_changed_afterwards_without_changing_the_budgets(drawn: Budgets) -> None:
    given_bytes = {**drawn.incremental, **drawn.summary}
    found = Budgets.of(
        summary_topics=drawn.summary,
        incremental_topics=drawn.incremental,
        dialogue_bytes=drawn.dialogue,
        topic_bytes=given_bytes,
        compaction_input_bytes=drawn.compaction_input,
    )
    given_bytes.clear()
    assert found == drawn
