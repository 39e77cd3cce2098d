# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is said of a streamed answer is the same however it was cut into chunks, and is never reasoning."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import broken, many, texts

from xr_ai_conversation.state.reasoning import Speech, without_reasoning
from xr_ai_conversation.state.text import clean, visible

TAGS = ("think", "thinking", "thought", "reasoning")

_scraps = st.one_of(
    st.sampled_from(
        (
            *(f"<{tag}>" for tag in TAGS),
            *(f"</{tag}>" for tag in TAGS),
            *(
                "<THINK>",
                "</Think>",
                "<",
                "</",
                "<thi",
                "<thinkin",
                "thinking>",
                "</reasonin",
                "<b>",
                "< think>",
            ),
            *("<thınk>", "<thİnk>", "<thinK>", "<reaſoning>", "</thinK>"),  # letters that only look alike
            *(" ", "\n", "\u200b", "a", "word ", "1 < 2", "\ud83d", "\ude00", "😀", "漢"),
        )
    ),
    st.text("<>/thinkgou rea", max_size=5),
)
tagged = st.lists(_scraps, max_size=12).map("".join)


def said(*chunks: str) -> str:
    speech = Speech()
    return "".join([*(speech.feed(chunk) for chunk in chunks), speech.end()])


@st.composite
def chunked(draw: st.DrawFn, whole: st.SearchStrategy[str]) -> tuple[str, list[str]]:
    """Draw a text and the chunks that it comes in, some of them empty."""
    text = draw(whole)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=10)))
    places = [0, *cuts, len(text)]
    return text, [text[start:end] for start, end in pairwise(places)]


@many
@given(chunked(tagged | broken() | texts()))
def test_the_same_is_said_however_a_text_is_cut_into_chunks(drawn: tuple[str, list[str]]) -> None:
    text, chunks = drawn
    assert said(*chunks) == said(text)


@many
@given(tagged)
def test_the_same_is_said_character_by_character(text: str) -> None:
    assert said(*text) == said(text)


def pair(text: str) -> list[str]:
    """Return the text with each character outside the basic plane as the two halves of a surrogate pair."""
    units = text.encode("utf-16-le", "surrogatepass")
    return [units[i : i + 2].decode("utf-16-le", "surrogatepass") for i in range(0, len(units), 2)]


@many
@given(texts())
def test_surrogate_pairs_split_between_chunks_are_joined(text: str) -> None:
    assert said(*pair(text)) == said(text)
    assert "\ufffd" in text or "\ufffd" not in said(*pair(text))


def trimmed(text: str) -> str:
    """Return a text without the blanks before its first word and the line breaks after its last."""
    if not visible(text):
        return ""
    last = len(text.rstrip())
    return (text[:last] + re.split(r"[\r\n]", text[last:])[0]).lstrip()


@many
@given(chunked(texts().filter(lambda text: "<" not in text)))
def test_a_text_without_tags_is_said_as_it_is_but_for_its_ends(drawn: tuple[str, list[str]]) -> None:
    text, chunks = drawn
    assert said(*chunks) == trimmed(text)


@many
@given(broken())
def test_what_is_said_can_be_encoded(text: str) -> None:
    said(*text).encode("utf-8", "strict")
    if "<" not in text:
        assert said(*text) == trimmed(clean(text))


plain = st.text("abc 漢\n,.", max_size=12)


@many
@given(
    st.data(), st.lists(st.tuples(plain, st.sampled_from(TAGS), st.text("XYZ<>/ \n", max_size=8)), max_size=4)
)
def test_reasoning_is_never_said_and_everything_else_is(
    data: st.DataObject, parts: list[tuple[str, str, str]]
) -> None:
    whole = "".join(f"{before}<{tag}>{thought}</{tag}>" for before, tag, thought in parts) + "end"
    _, chunks = data.draw(chunked(st.just(whole)))
    spoken = said(*chunks)
    assert not set(spoken) & set("XYZ<>/")
    assert spoken == ("".join(before for before, _, _ in parts) + "end").lstrip()
    assert without_reasoning(whole) == spoken


@many
@given(chunked(st.just("Well. <think>secret</thin <b>secret")), st.sampled_from(TAGS))
def test_nothing_is_said_after_a_tag_that_is_never_closed(drawn: tuple[str, list[str]], tag: str) -> None:
    _, chunks = drawn
    assert said(*chunks) == "Well. "
    assert said(f"<{tag}>secret") == ""
    assert without_reasoning(f"Well. <{tag}>secret") == "Well. "


@many
@given(chunked(tagged | texts()))
def test_at_every_moment_what_was_said_is_a_beginning_of_the_whole(drawn: tuple[str, list[str]]) -> None:
    text, chunks = drawn
    speech, so_far, whole = Speech(), "", said(text)
    for chunk in chunks:
        piece = speech.feed(chunk)
        assert so_far or not piece or (visible(piece) and piece == piece.lstrip())
        so_far += piece
        assert whole.startswith(so_far)
    assert so_far + speech.end() == whole


@many
@given(st.text("abcdefg .,", min_size=1, max_size=30))
def test_text_that_cannot_become_a_tag_is_said_at_once(text: str) -> None:
    speech = Speech()
    speech.feed("Well, ")
    assert speech.feed(text) == text
    assert speech.feed("1 < 2") == "1 < 2"
    assert speech.feed("a <b") == "a <b"
    assert speech.end() == ""


@pytest.mark.parametrize("held", ["<", "</", "<t", "<think", "</thinking", "<reasonin", "<THIN", "\ud83d"])
def test_only_what_may_become_a_tag_or_a_pair_is_held_back(held: str) -> None:
    speech = Speech()
    assert speech.feed(f"Well{held}") == "Well"
    assert speech.end() == clean(held)


def test_blank_before_the_first_word_is_not_said_and_later_blank_is() -> None:
    speech = Speech()
    assert [speech.feed(piece) for piece in ("", " ", "\n", " Hel", "lo ", " ", "\n", " ", "you")] == [
        *("", "", "", "Hel", "lo ", " ", "", "", "\n you")
    ]
    assert said(" \n", "<think>x</think>", "\n ", "Hi") == "Hi"


@pytest.mark.parametrize("chunks", [[], [""], [" ", "\n"], ["\u200b"], ["<think>x</think>", " \n"]])
def test_an_answer_of_which_nothing_can_be_seen_says_nothing(chunks: list[str]) -> None:
    assert said(*chunks) == ""


def test_a_lone_surrogate_is_replaced() -> None:
    assert said("ok \ud83d", " then") == "ok \ufffd then"
    assert said("ok ", "\ude00") == "ok \ufffd"


@pytest.mark.parametrize("lookalike", ["<thınk>", "<thİnk>", "<thin\u212a>", "<reaſoning>"])
def test_letters_that_only_look_like_those_of_a_tag_make_none(lookalike: str) -> None:
    assert said(f"a{lookalike}b") == f"a{lookalike}b"
    assert said(*f"a{lookalike}b") == f"a{lookalike}b"


@pytest.mark.parametrize("tag", TAGS)
def test_a_closing_tag_that_a_template_left_alone_hides_all_before_it(tag: str) -> None:
    assert without_reasoning(f"They asked.</{tag}>\nThe lamp.") == "\nThe lamp."
    assert without_reasoning(f"One.</{tag}>Two.</{tag.upper()}>Three.") == "Three."


def test_line_breaks_that_turn_out_to_be_the_last_are_not_said() -> None:
    assert said("One.\n", "\nTwo.\n", " \n") == "One.\n\nTwo."
    assert said("One. ", "<think>x</think>", "\n") == "One. "
    assert said("One.\n<think>secret") == "One."
