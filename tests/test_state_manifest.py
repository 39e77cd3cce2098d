# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The manifest of a request: it tells of the context message what is in it, what is not and why, and no text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

from hypothesis import given
from strategies import BEGINNING, at, compact, dialogue, exchange, note, situations, some, told_nothing

from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.context import Entry, ParticipantContext, section
from xr_ai_conversation.state.manifest import Manifest, SectionManifest, manifest, outline
from xr_ai_conversation.state.operations import fold, record, update
from xr_ai_conversation.state.prompt import context_message, prompt_view
from xr_ai_conversation.state.render import render_entry, render_state
from xr_ai_conversation.state.text import OMISSION

NOW = BEGINNING + timedelta(hours=6)


def made(context: ParticipantContext, budgets: Budgets) -> tuple[Manifest, str]:
    """Return the manifest and the message that it is about."""
    seen = prompt_view(context, budgets)
    return manifest(context, budgets, seen, NOW), context_message(seen.blocks, NOW)


def stored(context: ParticipantContext, found: SectionManifest) -> dict[str, tuple[Entry, str]]:
    """Return each entry of a section by its id, with its heading in a prompt."""
    topic = found["topic"]
    if found["kind"] == "summary":
        assert topic is not None
        state = context["states"].get(topic)
        return {state["id"]: (state, render_state(state, topic))} if state else {}
    return {entry["id"]: (entry, render_entry(entry, topic)) for entry in section(context, topic)["entries"]}


def texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


@some
@given(situations() | situations(least=True))
def test_the_bytes_of_a_manifest_are_those_of_the_message(
    situation: tuple[ParticipantContext, Budgets],
) -> None:
    told, message = made(*situation)
    assert told["bytes"] == len(message.encode())
    assert told["frame"] + sum(found["bytes"] for found in told["sections"]) == told["bytes"]
    for found in told["sections"]:
        assert found["bytes"] <= found["budget"]
    assert json.loads(json.dumps(told)) == told


@some
@given(situations() | situations(least=True))
def test_every_id_shown_is_in_the_message_and_none_that_is_left_out(
    situation: tuple[ParticipantContext, Budgets],
) -> None:
    context, budgets = situation
    told, message = made(context, budgets)
    records = message.split("\n\n")[1:-1]  # no record has an empty line in it
    expected: list[str] = []
    for found in told["sections"]:
        entries = stored(context, found)
        assert [*found["left_out"], *found["shown"]] == list(entries)
        assert set(found["cut"]) <= set(found["shown"])
        assert (found["why"] == "") == (not found["left_out"])
        summary = found["summary"]
        expected += ["Summary of"] if summary else []
        for each in found["shown"]:
            whole = entries[each][1]
            expected.append(whole.split("\n")[0])
            assert (whole in records) or each in found["cut"]
    headings = ["Summary of" if text.startswith("Summary of") else text.split("\n")[0] for text in records]
    assert sorted(headings) == sorted(expected)


def test_a_section_over_its_budget_tells_what_it_left_out_what_it_cut_and_why() -> None:
    budgets = Budgets.of(dialogue_bytes=700, compaction_input_bytes=700)
    context = dialogue(*(exchange(number, "x" * 300, "y" * 150) for number in range(4)))
    context = fold(context, [record(exchange(4, "z" * 900))])
    told, message = made(context, budgets)
    found = told["sections"][0]
    assert (found["left_out"], found["shown"]) == (["x0", "x1", "x2", "x3"], ["x4"])
    assert (found["cut"], found["why"], found["budget"]) == (["x4"], "over_budget", 700)
    assert OMISSION in message
    assert outline(prompt_view(context, budgets), message) == {
        "context_bytes": len(message),
        "context_summaries": 0,
        "context_shown": 1,
        "context_cut": 1,
        "context_left_out": 4,
    }


def test_a_topic_that_is_no_longer_configured_is_left_out_for_that() -> None:
    before = Budgets.of(summary_topics=["scene"], incremental_topics=["notes"])
    context = fold(
        told_nothing(),
        [
            update(before, "n1", at(0), "notes", "a note"),
            compact([note(1)], "s1", topic="notes"),
            update(before, "n2", at(0), "notes", "another"),
            update(before, "n3", at(0), "scene", "a lamp"),
        ],
    )
    told, _ = made(context, Budgets.of())
    notes, scene = told["sections"][1:]
    assert (notes["topic"], notes["left_out"], notes["why"]) == ("notes", ["n2"], "not_configured")
    assert notes["summary"] and (notes["summary"]["id"], notes["summary"]["bytes"]) == ("s1", 0)
    assert (scene["kind"], scene["topic"], scene["left_out"]) == ("summary", "scene", ["n3"])
    assert told["bytes"] == told["frame"]


def test_a_summary_tells_its_span_how_much_it_covers_and_its_age() -> None:
    told_of = [exchange(number) for number in range(3)]
    context = fold(dialogue(*told_of), [compact(told_of[:2], "s1", text="They greeted.")])
    found = made(context, Budgets.of())[0]["sections"][0]["summary"]
    assert found == {
        "id": "s1",
        "start": at(0),
        "end": at(60),
        "covers": 2,
        "bytes": len(made(context, Budgets.of())[1].split("\n\n")[1]) + 2,
        "age_s": 6 * 3600 - 60,
    }


def test_no_text_is_in_a_manifest() -> None:
    budgets = Budgets.of(summary_topics=["scene"], incremental_topics=["notes"])
    context = fold(
        dialogue(exchange(1, "SECRET", "SECRET"), exchange(2, "SECRET", "SECRET")),
        [
            compact([exchange(1)], "s1", text="SECRET"),
            update(budgets, "n2", at(0), "notes", "SECRET"),
            update(budgets, "n3", at(0), "scene", "SECRET"),
        ],
    )
    told, message = made(context, budgets)
    assert message.count("SECRET") == 5
    assert not any("SECRET" in text for text in texts(told))
