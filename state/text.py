# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Text measured and cut in UTF-8 bytes, and text set off so that it cannot pass for ours."""

from __future__ import annotations

import unicodedata
from typing import Final

import regex

OMISSION: Final = " [... omitted ...] "
"""Stands where the middle of a text was left out."""

_CLUSTER = regex.compile(r"\X")
_LONGEST_CLUSTER = 64  # code points; what is longer is not a character that anybody typed, and may be split
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and symbols by category, drawn as nothing


def clean(text: str) -> str:
    """Return `text` as it can be encoded in UTF-8.

    Args:
        text: Any string; it may hold lone surrogates, as some recognisers and JSON decoders deliver.

    Returns:
        The text with surrogate pairs joined and each lone surrogate replaced by U+FFFD.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def size(text: str) -> int:
    """Return the length of `text` in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode())


def visible(text: str) -> bool:
    """Tell whether anything of `text` can be seen: not only space, control, format or blank characters."""
    return any(unicodedata.category(char)[0] not in "CZM" and char not in _BLANK for char in text)


def clip(text: str, limit: int) -> str:
    """Cut `text` to at most `limit` bytes, keeping its start and its end.

    No code point is split, nor a grapheme cluster of a usual length.

    Args:
        text: Text that can be encoded in UTF-8.
        limit: The most bytes of UTF-8 that the result may have, its omission marker included. A limit that
            cannot hold the marker keeps as much of the start as fits.

    Returns:
        The text itself if it fits, else its start, `OMISSION` and its end.
    """
    if size(text) <= limit:
        return text
    room = limit - len(OMISSION)
    if room < 0:
        return _start(text, max(0, limit))
    start = _start(text, (room + 1) // 2)
    return start + OMISSION + _end(text, room - size(start))


def _start(text: str, limit: int) -> str:
    index = len(text.encode()[:limit].decode(errors="ignore"))
    return text[: _boundaries(text, index)[0]]


def _end(text: str, limit: int) -> str:
    data = text.encode()
    index = len(text) - len(data[len(data) - limit :].decode(errors="ignore"))
    return text[_boundaries(text, index)[1] :]


def _boundaries(text: str, index: int) -> tuple[int, int]:
    """Return the nearest places at or before `index`, and at or after it, that split no grapheme cluster."""
    if index in (0, len(text)):
        return index, index
    first = index - 1
    while first > 0 and not text[first].isascii():  # an ASCII character always begins a cluster, but for \n
        first -= 1
    for cluster in _CLUSTER.finditer(text, max(0, first - 1)):
        before, after = cluster.span()
        if after == index:
            return index, index
        if after > index:
            return (index, index) if after - before > _LONGEST_CLUSTER else (before, after)
    return index, index


def quote(label: str, text: str) -> str:
    r"""Set `text` off: each of its lines begins with `label` and "> ".

    Whatever a line says, it cannot pass for a heading, a message or an instruction of ours. Every line break
    that Unicode knows counts as one.

    Args:
        label: Says whose words these are; letters only.
        text: What was said or published.

    Returns:
        The quoted lines, joined by "\n".
    """
    return "\n".join(f"{label}> {line}" for line in text.splitlines() or [""])


def quote_within(label: str, text: str, limit: int) -> str:
    """Quote `text` as `quote` does, cut like `clip` so that the quoted form has at most `limit` bytes."""
    quoted = quote(label, text)
    if size(quoted) <= limit:
        return quoted
    fits, too_long = 0, limit
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if size(quote(label, clip(text, middle))) <= limit:
            fits = middle
        else:
            too_long = middle
    return quote(label, clip(text, fits))


__all__ = ["OMISSION", "clean", "clip", "quote", "quote_within", "size", "visible"]
