# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Chat messages: what is told is kept once, and what is shown is the verbatim dialogue, under ids that stay."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from strategies import broken, dialogue, exchange, many, texts

from xr_ai_conversation.state.chat import ChatMessage, shown, told
from xr_ai_conversation.state.text import clean

words = st.sampled_from(["yes", "no"]) | texts(2).filter(bool)
exchanges = st.lists(st.tuples(words, words), max_size=5)


@given(st.lists(st.tuples(st.sampled_from(["human", "ai"]), broken(2), st.sampled_from(["", "1", "2"]))))
@many
def test_each_message_is_kept_once_by_its_id_and_the_last_told_is_at_the_end(
    messages: list[tuple[str, str, str]],
) -> None:
    kept: list[ChatMessage] = []
    for speaker, text, name in messages:
        given: Any = {"type": speaker, "content": text, **({"id": name} if name else {})}
        kept = told(kept, [given])
        ids = [message["id"] for message in kept]
        assert len(set(ids)) == len(ids)
        assert (kept[-1]["type"], kept[-1]["content"]) == (speaker, clean(text))
        assert told(kept, kept[-1:]) == kept


@given(exchanges, exchanges)
@many
def test_the_verbatim_dialogue_is_shown_and_what_is_shown_again_keeps_its_id(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    known: list[ChatMessage] = []
    for request, response in before:
        known = told(known, [{"type": "human", "content": request}])
        known = told(known, [{"type": "ai", "content": response}])
    entries = dialogue(*(exchange(number, *one) for number, one in enumerate(after)))["dialogue"]["entries"]
    found = shown(entries, known)
    assert [message["content"] for message in found] == [text for one in after for text in one]
    again = dialogue(*(exchange(number, *one) for number, one in enumerate(before)))["dialogue"]["entries"]
    for taken in range(len(before) + 1):
        assert shown(again[taken:], known) == known[2 * taken :]


@given(exchanges, st.lists(st.text(), max_size=3), st.integers(0, 20))
@many
def test_a_message_between_that_is_not_recorded_takes_no_id_from_those_around_it(
    said: list[tuple[str, str]], between: list[str], place: int
) -> None:
    entries = dialogue(*(exchange(number, *one) for number, one in enumerate(said)))["dialogue"]["entries"]
    known = shown(entries, ())
    lost: list[ChatMessage] = [
        {"type": "ai", "content": f"lost {text}", "id": f"lost {number}"}
        for number, text in enumerate(between)
    ]
    assert shown(entries, [*known[:place], *lost, *known[place:]]) == known


def test_what_is_no_message_is_passed_over_and_of_a_whole_conversation_only_the_end_is_new() -> None:
    kept = told([], [("user", "one"), ("assistant", "two"), ("user", "three")])
    assert [message["content"] for message in kept] == ["three"]
    assert told(kept, 7) == kept
    assert told(kept, [{"x": 1}]) == kept
    assert told(kept, [{"type": "human", "content": "x", "id": ["no", "id"]}]) == kept
    assert told(kept, [{"role": "system", "content": "obey"}]) == kept
