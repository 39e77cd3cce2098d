# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""An edited context is taken if it keeps every rule, whole as it is; else it is refused, and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import at, contexts, dialogue, exchange, note, some, summary, texts, told_nothing

from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.context import ParticipantContext, load
from xr_ai_conversation.state.operations import fold, record, taken, update
from xr_ai_conversation.state.prompt import blocks
from xr_ai_conversation.state.text import visible

BUDGETS = Budgets.of(summary_topics=["camera"], incremental_topics=["notes"])

Edit = Callable[[Any], object]
"""Changes a context, which is plain JSON here, in place."""


@pytest.fixture
def context() -> ParticipantContext:
    """Three exchanges, two notes, a state, and summaries of what was before."""
    found = dialogue(exchange(1), exchange(2), exchange(3))
    for number in (4, 5):
        found = fold(found, [update(BUDGETS, f"n{number}", at(60 * number), "notes", "note")])
    found = fold(found, [update(BUDGETS, "n6", at(360), "camera", "a chair")])
    found["dialogue"]["summary"] = summary("They met.", name="s1")
    found["topics"]["notes"]["summary"] = summary("A list.", name="s2")
    return found


@given(contexts(BUDGETS), texts())
@some
def test_whatever_context_is_edited_it_is_taken_whole_or_refused_and_what_is_taken_can_be_used(
    drawn: ParticipantContext, text: str
) -> None:
    proposed: Any = deepcopy(drawn)
    for entry in proposed["dialogue"]["entries"]:
        entry["request"] = text
    try:
        found = taken(drawn, proposed)
    except ValueError as error:
        assert str(error).startswith("the edit is refused: ")
    else:
        assert found == proposed == load(found)
        assert taken(found, found) == found
        blocks(found, BUDGETS)


@given(st.lists(st.tuples(texts().filter(visible), texts().filter(visible)), max_size=5), st.data())
@some
def test_any_text_of_a_recorded_dialogue_may_be_changed_and_any_exchange_taken_out(
    told: list[tuple[str, str]], data: st.DataObject
) -> None:
    before = fold(told_nothing(), [record(exchange(number, *words)) for number, words in enumerate(told)])
    proposed: Any = deepcopy(before)
    entries = proposed["dialogue"]["entries"]
    for entry in entries:
        entry["response"] = data.draw(texts().filter(visible))
    proposed["dialogue"]["entries"] = [entry for entry in entries if data.draw(st.booleans())]
    assert taken(before, proposed) == proposed
    assert fold(proposed, [record(exchange(9, "new"))])["dialogue"]["entries"][-1]["id"] == "x9"


ACCEPTED: dict[str, Edit] = {
    "nothing": lambda found: None,
    "a text": lambda found: found["dialogue"]["summary"].update(text="They met in Lyon."),
    "no summary": lambda found: found["dialogue"].update(summary=None),
    "no topic": lambda found: found["topics"].clear(),
    "another exchange": lambda found: found["dialogue"]["entries"].append(exchange(7)),
    "an interrupted exchange without an answer": lambda found: found["dialogue"]["entries"].append(
        {**exchange(7, response=""), "interrupted": True}
    ),
    "equal times": lambda found: found["dialogue"]["entries"][1].update(time=at(60)),
    "an older version": lambda found: (found.update(schema_version=1), found.pop("archived")),
}


@pytest.mark.parametrize("edit", ACCEPTED.values(), ids=ACCEPTED)
def test_an_edit_within_the_rules_is_taken(context: ParticipantContext, edit: Edit) -> None:
    proposed: Any = deepcopy(context)
    edit(proposed)
    assert taken(context, proposed) == load(proposed)


REFUSED: dict[str, tuple[Edit, str]] = {
    "an empty one": (lambda found: found.clear(), "the whole context, got an empty one"),
    "a part": (lambda found: found.pop("topics"), "topics: Field required"),
    "no version": (lambda found: found.pop("schema_version"), "schema_version"),
    "a newer version": (lambda found: found.update(schema_version=99), "schema_version 99"),
    "another field": (lambda found: found.update(mood="good"), "mood"),
    "a wrong type": (lambda found: found["dialogue"]["entries"][0].update(request=7), "request"),
    "no time": (lambda found: found["dialogue"]["entries"][0].update(time="today"), "date and time"),
    "the order": (
        lambda found: found["dialogue"]["entries"].reverse(),
        "dialogue.entries must be in the order of their times, 1 is at .* after ",
    ),
    "the order of notes": (
        lambda found: found["topics"]["notes"]["entries"].reverse(),
        "topics.notes.entries",
    ),
    "an id twice": (
        lambda found: found["dialogue"]["entries"][1].update(id="x1"),
        "ids of entries must be unique and not empty, got 'x1' 2 times",
    ),
    "an id of another section": (
        lambda found: found["states"]["camera"].update(id="x1"),
        "got 'x1' 2 times",
    ),
    "an empty id": (lambda found: found["states"]["camera"].update(id=""), "not empty, got '' 1 times"),
    "the id of a summary twice": (
        lambda found: found["dialogue"]["summary"].update(id="s2"),
        "ids of summaries must be unique and not empty, got 's2' 2 times",
    ),
    "a span turned round": (
        lambda found: found["dialogue"]["summary"].update(start=at(0)),
        "dialogue.summary must not start after its end",
    ),
    "a summary of nothing": (
        lambda found: found["dialogue"]["summary"].update(covers=0),
        "dialogue.summary.covers must be at least 1, got 0",
    ),
    "a blank summary": (
        lambda found: found["dialogue"]["summary"].update(text=" "),
        "dialogue.summary.text must not be blank",
    ),
    "a blank request": (
        lambda found: found["dialogue"]["entries"][2].update(request=""),
        "dialogue.entries.2.request must not be blank",
    ),
    "a blank answer": (
        lambda found: found["dialogue"]["entries"][2].update(response=""),
        "dialogue.entries.2.response must not be blank",
    ),
    "a blank state": (
        lambda found: found["states"]["camera"].update(text="\n"),
        "states.camera.text must not be blank",
    ),
    "a note in the dialogue": (
        lambda found: found["dialogue"]["entries"].append(note(9)),
        "dialogue.entries.3 must be an exchange, with request and response",
    ),
    "an exchange in a topic": (
        lambda found: found["topics"]["notes"]["entries"].append(exchange(9)),
        "topics.notes.entries.2 must be an update, with text",
    ),
    "half of a character": (
        lambda found: found["states"]["camera"].update(text="a \ud83d"),
        "got lone surrogates",
    ),
    "half an identity": (lambda found: found.update(identities="A"), "identities"),
    "identities taken out": (
        lambda found: found.update(identities=found["identities"][16:]),
        "identities and archived must hold all that they held",
    ),
    "another archive": (
        lambda found: found.update(archived={"id": "a", "count": 3}),
        "identities and archived must hold all that they held",
    ),
}


@pytest.mark.parametrize(("edit", "told"), REFUSED.values(), ids=REFUSED)
def test_an_edit_that_breaks_a_rule_is_refused_by_what_is_wrong(
    context: ParticipantContext, edit: Edit, told: str
) -> None:
    proposed: Any = deepcopy(context)
    edit(proposed)
    with pytest.raises(ValueError, match=told):
        taken(context, proposed)
