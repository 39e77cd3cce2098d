# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A section stays within its budget as rendered, shows its newest entry, and leaves out in steps."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import TOPICS, entries, exchange, many, note, sections, some, stamps, summary, texts

from xr_ai_conversation.state.context import Entry, Section
from xr_ai_conversation.state.render import (
    SectionView,
    block_size,
    render_entry,
    render_state,
    render_summary,
    smallest_budget,
    view,
)
from xr_ai_conversation.state.text import OMISSION
from xr_ai_conversation.state.times import instant

topics = st.none() | st.sampled_from(TOPICS)


def taken(seen: SectionView) -> int:
    """Return the bytes of a section in a prompt, each block with the blank line after it."""
    shown = [block.text for block in (seen.summary, *seen.entries) if block]
    return sum(len(text.encode()) + 2 for text in shown)


@st.composite
def budgeted(draw: st.DrawFn) -> tuple[Section, str | None, int]:
    """Draw a section with a budget, often the smallest."""
    topic = draw(topics)
    least = smallest_budget(topic)
    budget = draw(st.just(least) | st.integers(least, least + 30) | st.integers(least, 3_000))
    return draw(sections(topic, budget)), topic, budget


@some
@given(budgeted())
def test_a_section_never_exceeds_its_budget_as_rendered(drawn: tuple[Section, str | None, int]) -> None:
    found, topic, budget = drawn
    seen = view(found, topic, budget)
    assert taken(seen) <= budget
    assert seen.size == taken(seen)


@some
@given(budgeted())
def test_the_summary_and_the_newest_entry_are_always_shown(drawn: tuple[Section, str | None, int]) -> None:
    found, topic, budget = drawn
    seen = view(found, topic, budget)
    assert (seen.summary is None) == (found["summary"] is None)
    if found["entries"]:
        newest = found["entries"][-1]
        heading = render_entry(newest, topic).split("\n")[0]
        assert seen.entries[-1].text.split("\n")[0] == heading
        assert seen.entries[-1].time == instant(newest["time"])


@some
@given(budgeted())
def test_what_is_left_out_is_the_oldest_and_only_as_much_as_steps_ask_for(
    drawn: tuple[Section, str | None, int],
) -> None:
    found, topic, budget = drawn
    seen = view(found, topic, budget)
    assert seen.left_out + len(seen.entries) == len(found["entries"])
    whole = [render_entry(entry, topic) for entry in found["entries"]]
    shown = [block.text for block in seen.entries]
    cut = [text for text, full in zip(shown, whole[seen.left_out :], strict=True) if text != full]
    assert len(cut) == seen.clipped
    room = budget - (block_size(seen.summary.text) if seen.summary else 0)
    if sum(map(block_size, whole)) <= room:
        assert (seen.left_out, seen.clipped) == (0, 0)
    if seen.left_out > 0 and len(shown) > 1:
        last_left_out = render_entry(found["entries"][seen.left_out - 1], topic, budget // 2 - 2)
        assert sum(map(block_size, (last_left_out, *shown))) > room - budget // 4


@some
@given(budgeted())
def test_one_large_entry_keeps_its_start_and_end(drawn: tuple[Section, str | None, int]) -> None:
    found, topic, budget = drawn
    for number in range(len(found["entries"])):
        alone: Section = {"summary": found["summary"], "entries": found["entries"][: number + 1]}
        seen = view(alone, topic, budget)
        if seen.clipped:
            assert any(OMISSION in block.text for block in seen.entries)


@many
@given(topics, st.data(), texts(20), st.integers(0, 600))
def test_any_entry_is_rendered_within_a_limit_that_can_hold_one(
    topic: str | None, data: st.DataObject, text: str, more: int
) -> None:
    limit = smallest_budget(topic) // 2 - 2 + more
    entry: Entry = exchange(1, text, data.draw(texts(20))) if topic is None else note(1, text)
    rendered = render_entry(entry, topic, limit)
    assert len(rendered.encode()) <= limit
    assert (rendered == render_entry(entry, topic)) == (len(render_entry(entry, topic).encode()) <= limit)
    assert len(render_summary(summary(text), topic, limit).encode()) <= limit
    assert len(render_state(note(1, text), topic or "t", limit).encode()) <= limit


@many
@given(st.integers(2_000, 4_000), st.integers(2_000, 4_000), st.integers(300, 2_000))
def test_a_short_question_leaves_its_room_to_the_answer_and_the_other_way_round(
    long: int, longer: int, limit: int
) -> None:
    short = "where is it?"
    answered = render_entry(exchange(1, short, "x" * long), None, limit)
    assert f"\nuser> {short}\n" in answered
    asked = render_entry(exchange(1, "x" * long, short), None, limit)
    assert asked.endswith(f"\nassistant> {short}")
    if limit < long:
        assert len(answered) == len(asked) == limit
    both = render_entry(exchange(1, "x" * long, "y" * longer), None, limit)
    assert abs(both.count("x") - both.count("y")) <= len("assistant> ") + 8
    assert len(both) > limit - 4


def test_an_exchange_is_shown_with_its_full_date_and_zone() -> None:
    told = exchange(1, "When is it?", "At three.", time="2026-03-02T14:13:07.123456+01:00")
    assert render_entry(told, None) == (
        "Exchange at 2026-03-02 14:13:07 +01:00:\nuser> When is it?\nassistant> At three."
    )


def test_an_interrupted_exchange_says_so_and_no_other_does() -> None:
    told = exchange(1)
    told["interrupted"] = True
    assert render_entry(told, None).startswith("Exchange at 2026-03-02 13:01:00 +00:00, interrupted:\n")
    told["interrupted"] = False
    assert "interrupted" not in render_entry(told, None)


def test_an_interrupted_exchange_without_an_answer_shows_what_was_asked_alone() -> None:
    shown = render_entry({**exchange(1, "Hello"), "response": "", "interrupted": True}, None)
    assert shown.splitlines()[1:] == ["user> Hello"]


def test_an_update_a_state_and_summaries_say_what_they_are() -> None:
    told = note(1, "The lamp is on.\nIt is red.", time="2026-03-02T23:58:00.000000+09:00")
    assert render_entry(told, "notes") == (
        'Update on "notes" at 2026-03-02 23:58:00 +09:00:\nupdate> The lamp is on.\nupdate> It is red.'
    )
    assert render_state(told, "scene") == (
        'State of "scene" at 2026-03-02 23:58:00 +09:00:\nstate> The lamp is on.\nstate> It is red.'
    )
    earlier = summary("They spoke of lamps.")
    span = "2026-03-02 11:00:00 +00:00 to 2026-03-02 12:00:00 +00:00"
    assert render_summary(earlier, None) == (
        f"Summary of the earlier conversation, {span}:\nsummary> They spoke of lamps."
    )
    assert render_summary(earlier, "notes") == (
        f'Summary of earlier updates on "notes", {span}:\nsummary> They spoke of lamps.'
    )


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("2026-03-29T01:59:59.999999+01:00", "2026-03-29 01:59:59 +01:00"),
        ("2026-03-29T03:00:00.000000+02:00", "2026-03-29 03:00:00 +02:00"),
        ("2026-10-25T02:30:00.000000+02:00", "2026-10-25 02:30:00 +02:00"),
        ("2026-10-25T02:30:00.000000+01:00", "2026-10-25 02:30:00 +01:00"),
        ("2026-12-31T23:59:00.000000+00:00", "2026-12-31 23:59:00 +00:00"),
        ("2026-01-01T00:10:00.000000-03:30", "2026-01-01 00:10:00 -03:30"),
        ("1890-01-01T00:10:00.000000+00:17:30", "1890-01-01 00:10:00 +00:17:30"),
    ],
)
def test_a_time_is_shown_as_it_was_in_its_zone_also_where_the_clock_was_moved(time: str, shown: str) -> None:
    assert f"at {shown}:" in render_entry(exchange(1, time=time), None)


@many
@given(stamps(10**8))
def test_every_shown_time_has_date_time_and_zone(time: str) -> None:
    heading = render_entry(note(1, time=time), "t").split("\n")[0]
    assert re.fullmatch(r'Update on "t" at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d(:\d\d)?:', heading)


@some
@given(st.lists(st.integers(0, 80), min_size=30, max_size=60), st.booleans(), st.integers(1_000, 1_600))
def test_a_growing_section_keeps_its_cut_until_another_quarter_of_its_budget_has_come(
    lengths: list[int], compacted: bool, budget: int
) -> None:
    found: Section = {"summary": summary("Before.") if compacted else None, "entries": []}
    before, moves, rendered = view(found, "t", budget), 0, 0
    room = budget - (block_size(before.summary.text) if before.summary else 0)
    for number, length in enumerate(lengths):
        entry = note(number, "x" * length)
        rendered += block_size(render_entry(entry, "t"))
        found = {**found, "entries": [*found["entries"], entry]}
        after = view(found, "t", budget)
        assert after.left_out >= before.left_out
        if after.left_out == before.left_out:
            assert after.entries[:-1] == before.entries
        else:
            moves += 1
        assert after.summary == before.summary
        before = after
        if before.left_out:
            last = block_size(render_entry(found["entries"][before.left_out - 1], "t"))
            assert sum(block_size(block.text) for block in before.entries) + last > room - budget // 4
    assert moves <= max(0, -(-(rendered - room) // (budget // 4)))
    assert (before.left_out > 0) == (rendered > room)


@some
@given(st.lists(st.integers(0, 3_000), min_size=2, max_size=20), st.integers(1_000, 1_600))
def test_entries_of_any_size_stay_as_they_are_where_the_cut_stays(lengths: list[int], budget: int) -> None:
    entries_: list[Entry] = []
    before = view({"summary": None, "entries": []}, "t", budget)
    for number, length in enumerate(lengths):
        entries_ = [*entries_, note(number, "x" * length)]
        after = view({"summary": None, "entries": entries_}, "t", budget)
        over = before.left_out or before.clipped
        if over and after.left_out == before.left_out:  # only the one that was the newest may be cut now
            assert after.entries[: len(before.entries) - 1] == before.entries[:-1]
        if not after.left_out and not after.clipped:
            assert after.entries[:-1] == before.entries
        before = after


@some
@given(st.data(), topics)
def test_the_same_section_gives_the_same_bytes(data: st.DataObject, topic: str | None) -> None:
    found: Section = {"summary": summary("Before."), "entries": data.draw(entries(topic))}
    again: Section = {"summary": summary("Before."), "entries": list(found["entries"])}
    assert view(found, topic, 900) == view(again, topic, 900)


def test_the_newest_is_shown_uncut_where_it_fits_alone() -> None:
    old, large = exchange(1, "q", "x" * 300), exchange(2, "q", "y" * 700)
    seen = view({"summary": None, "entries": [old, large]}, None, 900)
    assert [block.text for block in seen.entries] == [render_entry(large, None)]
    assert (seen.left_out, seen.clipped) == (1, 0)


def test_the_newest_is_cut_where_it_does_not_fit_alone() -> None:
    seen = view({"summary": None, "entries": [exchange(1, "q", "first" + "y" * 2_000 + "last")]}, None, 900)
    assert (seen.left_out, seen.clipped) == (0, 1)
    assert "assistant> first" in seen.entries[0].text
    assert seen.entries[0].text.endswith("last")
    assert OMISSION in seen.entries[0].text


def test_a_summary_of_many_lines_leaves_room_for_the_newest_entry() -> None:
    budget = smallest_budget(None)
    found: Section = {"summary": summary("\n" * (budget // 4)), "entries": [exchange(1, "why?", "because")]}
    seen = view(found, None, budget)
    assert taken(seen) <= budget
    assert "because" in seen.entries[0].text


@pytest.mark.parametrize("topic", [None, *TOPICS])
def test_the_smallest_budget_shows_something_of_the_summary_and_of_the_newest_entry(
    topic: str | None,
) -> None:
    budget = smallest_budget(topic)
    earlier = summary("S" * (budget // 4))
    newest: Entry = note(2, "U" * 900) if topic else exchange(2, "Q" * 900, "A" * 900)
    seen = view({"summary": earlier, "entries": [note(1), newest]}, topic, budget)
    assert seen.summary is not None
    assert "summary> S" in seen.summary.text
    (shown,) = seen.entries
    for label, letter in (("update", "U"),) if topic else (("user", "Q"), ("assistant", "A")):
        (line,) = (line for line in shown.text.split("\n") if line.startswith(f"{label}> "))
        assert re.fullmatch(rf"{label}> {letter}+{re.escape(OMISSION)}{letter}+", line)
