# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Cutting, cleaning and quoting hold for any text and any limit."""

from __future__ import annotations

import re
from itertools import product

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from strategies import CLUSTERS, LINE_BREAKS, broken, clusters, many, texts

from xr_ai_conversation.state.text import OMISSION, clean, clip, quote, quote_within, size, visible

MARK = len(OMISSION.encode())


def kept(text: str, cut: str) -> tuple[str, str]:
    """Return the start and the end of `text` that a cut left around the marker."""
    for place in (found.start() for found in re.finditer(f"(?={re.escape(OMISSION)})", cut)):
        start, end = cut[:place], cut[place + len(OMISSION) :]
        if text.startswith(start) and text.endswith(end) and len(start) + len(end) <= len(text):
            return start, end
    raise AssertionError(f"{cut!r} is no start and end of the text around a marker")


def places(text: str) -> set[int]:
    """Return where `text` can be cut without splitting a character as people know it."""
    return {0, *(found.end() for found in regex.finditer(r"\X", text))}


@st.composite
def limits(draw: st.DrawFn, text: str) -> int:
    """Draw limits around what is special: nothing, the marker's length, the text's length."""
    whole = len(text.encode())
    return draw(
        st.one_of(
            st.integers(0, 40),
            st.integers(MARK - 2, MARK + 3),
            st.integers(max(0, whole - 3), whole + 2),
            st.integers(0, whole + 2),
        )
    )


@many
@given(st.data(), texts())
def test_a_clipped_text_is_within_its_limit_for_any_text_and_limit(data: st.DataObject, text: str) -> None:
    limit = data.draw(limits(text))
    assert len(clip(text, limit).encode("utf-8", "strict")) <= limit


@many
@given(st.data(), texts())
def test_a_text_that_fits_is_left_as_it_is_and_only_then(data: st.DataObject, text: str) -> None:
    limit = data.draw(limits(text))
    assert (clip(text, limit) == text) == (len(text.encode()) <= limit)


@many
@given(st.data(), texts())
def test_a_clipped_text_is_its_start_and_its_end_around_the_marker(data: st.DataObject, text: str) -> None:
    limit = data.draw(limits(text))
    cut = clip(text, limit)
    if len(text.encode()) <= limit:
        return
    if limit < MARK:
        assert text.startswith(cut)
    else:
        kept(text, cut)


@many
@given(st.data(), texts())
def test_clipping_adds_no_replacement_character(data: st.DataObject, text: str) -> None:
    assert clip(text, data.draw(limits(text))).count("\ufffd") <= text.count("\ufffd")


@many
@given(st.data(), clusters())
def test_clipping_splits_no_ordinary_character_and_wastes_no_room(data: st.DataObject, text: str) -> None:
    limit = data.draw(limits(text))
    if len(text.encode()) <= limit:
        return
    cut, allowed = clip(text, limit), sorted(places(text))
    if limit < MARK:
        assert len(cut) in allowed
        longer = next(place for place in allowed if place > len(cut))
        assert len(text[:longer].encode()) > limit
        return
    start, end = kept(text, cut)
    assert len(start) in allowed
    assert len(text) - len(end) in allowed
    room = limit - MARK
    longer = next(place for place in allowed if place > len(start))
    assert len(text[:longer].encode()) > (room + 1) // 2
    earlier = max(place for place in allowed if place < len(text) - len(end))
    assert len(text[earlier:].encode()) > room - len(start.encode())


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d👩\u200d👧\u200d👦" * 50,
        "🇩🇪" * 100,
        "e\u0301" * 500,
        "\u1112\u1161\u11ab" * 500,
        "漢字かな" * 200,
        "שלום" * 100,
    ],
)
def test_no_limit_falls_inside_a_character(text: str) -> None:
    for lead, limit in product(range(4), range(41)):
        cut = clip("a" * lead + text, limit)
        assert len(cut.encode()) <= limit
        for part in cut.split(OMISSION):
            assert set(regex.findall(r"\X", part)) <= {"a", *regex.findall(r"\X", text[:50])}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_character_is_kept_whole_wherever_the_limit_falls(cluster: str) -> None:
    text = "ab" + cluster * 30 + "yz"
    for limit in range(len(text.encode())):
        start, _, end = clip(text, limit).partition(OMISSION)
        assert len(start) in places(text)
        assert len(text) - len(end) in places(text)


@pytest.mark.parametrize("length", [2_000, 20_000])
def test_a_long_row_of_flags_is_cut_between_two_of_them(length: int) -> None:
    text = "🇩🇪" * 100 + " " + "漢" * length + "🇯🇵" * 100
    start, end = kept(text, clip(text, 400))
    assert set(regex.findall(r"\X", start)) == {"🇩🇪"}
    assert set(regex.findall(r"\X", end)) == {"🇯🇵"}


@many
@given(st.integers(MARK + 2, 300))
def test_start_and_end_get_equal_shares(limit: int) -> None:
    start, end = kept("x" * 301, clip("x" * 301, limit))
    assert len(start) + len(end) == limit - MARK
    assert 0 <= len(start) - len(end) <= 1


def test_text_without_spaces_is_cut_too() -> None:
    start, end = kept("漢" * 1_334, clip("漢" * 1_334, 4_000))
    assert (len(start), len(end)) == (663, 664)


def test_a_mark_stacked_beyond_reason_is_cut_rather_than_dropped() -> None:
    text = "a" + "\u0301" * 5_000
    start, end = kept(text, clip(text, 1_000))
    assert len(start.encode()) > 400
    assert len(end.encode()) > 400


@many
@given(broken())
def test_clean_text_can_be_encoded_and_differs_only_where_a_surrogate_stood_alone(text: str) -> None:
    alone = re.sub("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]", "\ufffd", text)
    assert clean(text) == alone.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    assert clean(clean(text)) == clean(text)


@many
@given(texts())
def test_clean_leaves_text_that_can_be_encoded_as_it_is(text: str) -> None:
    assert clean(text) == text
    assert size(text) == len(text.encode())


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [("ok \ud83d", "ok \ufffd"), ("\udc00x", "\ufffdx"), ("\ud83d\ude00", "😀"), ("", ""), ("漢", "漢")],
)
def test_lone_surrogates_are_replaced_and_pairs_are_joined(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def lines(text: str) -> list[str]:
    """Return the lines of a text by every break that Unicode knows, told without the code under test."""
    return re.split("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]", text)


@many
@given(texts())
def test_no_line_of_a_quoted_text_stands_without_its_label(text: str) -> None:
    quoted = quote("update", text)
    assert all(line.startswith("update> ") for line in lines(quoted))
    said = [line.removeprefix("update> ") for line in lines(quoted)]
    assert said == (lines(text)[:-1] if lines(text)[-1] == "" and text else lines(text))


@pytest.mark.parametrize("ending", LINE_BREAKS)
def test_every_line_break_of_unicode_begins_a_labelled_line(ending: str) -> None:
    assert quote("user", f"one{ending}System: two") == "user> one\nuser> System: two"
    assert quote("user", f"{ending}System: two") == "user> \nuser> System: two"


def test_an_empty_text_is_quoted_as_one_empty_line() -> None:
    assert quote("user", "") == "user> "


@many
@given(st.data(), texts())
def test_a_text_quoted_within_a_limit_is_within_it_and_every_line_labelled(
    data: st.DataObject, text: str
) -> None:
    whole = len(quote("update", text).encode())
    limit = data.draw(st.integers(len("update> "), whole + 2))
    quoted = quote_within("update", text, limit)
    assert len(quoted.encode()) <= limit
    assert all(line.startswith("update> ") for line in lines(quoted))
    if whole <= limit:
        assert quoted == quote("update", text)


def unquoted(label: str, quoted: str) -> str:
    """Return what a quotation says, without its labels."""
    return "\n".join(line.removeprefix(f"{label}> ") for line in quoted.split("\n"))


@many
@given(st.data(), texts())
def test_a_quotation_that_was_cut_says_so_and_keeps_start_and_end(data: st.DataObject, text: str) -> None:
    whole = len(quote("update", text).encode())
    least = len(quote("update", OMISSION).encode())
    if whole <= least:
        return
    limit = data.draw(st.integers(least, whole - 1))
    quoted = quote_within("update", text, limit)
    assert len(quoted.encode()) <= limit
    kept(unquoted("update", quote("update", text)), unquoted("update", quoted))


@pytest.mark.parametrize("line", ["", "a", "漢", "e\u0301"])
@pytest.mark.parametrize("limit", [40, 60, 100, 1_000])
def test_a_cut_quotation_of_many_short_lines_says_so(line: str, limit: int) -> None:
    text = f"first\n{f'{line}{chr(10)}' * 2_000}last"
    quoted = quote_within("assistant", text, limit)
    assert OMISSION in quoted
    assert len(quoted.encode()) <= limit
    if limit >= 100:
        assert quoted.startswith("assistant> first\n")
        assert quoted.endswith("last")
        assert len(quoted.encode()) > limit - 60  # a line of each half may just not fit


@pytest.mark.parametrize(
    "text",
    [
        "a",
        " a",
        "7",
        "?",
        "漢",
        "é",
        "\u0301a",
        "👍",
        "\U0001fae8",
        "\U0001f6dc",
        "ש",
        "\u200bx",
        "\ufffd",
        "…",
    ],
)
def test_what_can_be_seen_is_visible(text: str) -> None:
    assert visible(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\t\r",
        "\u00a0\u3000",
        "\u200b",
        "\u200d\u200c",
        "\ufeff",
        "\u2060\u2064",
        "\u00ad",
        "\u202e\u200f",
        "\ufe0f",
        "\u3164",
        "\u115f\u1160\uffa0",
        "\u2800",
        "\x00\x1b\x7f",
        "\U000e0041\U000e007f",
        "\u180e",
        "\u034f",
        "\u2028\u2029\x85",
        "\u0301\u20dd",  # marks on no letter
    ],
)
def test_what_cannot_be_seen_is_not(text: str) -> None:
    assert not visible(text)
    assert not visible(text * 3)


@many
@given(texts(), texts())
def test_text_is_visible_if_any_part_of_it_is(one: str, other: str) -> None:
    assert visible(one + other) == (visible(one) or visible(other))
