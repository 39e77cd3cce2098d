# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Text measured and cut in UTF-8 bytes, and text set off so that it cannot pass for ours."""

from __future__ import annotations

from typing import Final

import regex

OMISSION: Final = " [... omitted ...] "
"""Stands where the middle of a text was left out."""

_CLUSTER = regex.compile(r"\X")
# Between two of these a cluster always ends, whatever stands around them: letters and ideographs that nothing is joined
# to, whole syllables of Korean, and ASCII but for line breaks. That tells most places without a look at the rest.
_SURE = regex.compile(
    r"(?<=[\p{Grapheme_Cluster_Break=Other}\p{Grapheme_Cluster_Break=LV}\p{Grapheme_Cluster_Break=LVT}])"
    r"(?=[\p{Grapheme_Cluster_Break=Other}\p{Grapheme_Cluster_Break=LV}\p{Grapheme_Cluster_Break=LVT}])"
)
_LONGEST_CLUSTER = 64  # code points; what is longer is not a character that anybody typed, and may be split
_FAR = (
    1024  # code points looked back at for the beginning of a cluster, so that a cut in a long text is cheap
)
# By regex, for whom the latest emoji are no unassigned code points. The last one is the blank of braille.
_VISIBLE = regex.compile(r"[^\p{Z}\p{Cc}\p{Cf}\p{Cs}\p{M}\p{Default_Ignorable_Code_Point}\u2800]")


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
    return _VISIBLE.search(text) is not None


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
    return _start(text, max(0, limit)) if room < 0 else _around_omission(text, room)


def _around_omission(text: str, room: int) -> str:
    """Return `OMISSION` between start and end of a text of more than `room` bytes, which share the room."""
    start = _start(text, (room + 1) // 2)
    return start + OMISSION + _end(text, room - size(start))


def _start(text: str, limit: int) -> str:
    index = len(text[:limit].encode()[:limit].decode(errors="ignore"))
    return text[: _boundaries(text, index)[0]]


def _end(text: str, limit: int) -> str:
    data = text[len(text) - min(limit, len(text)) :].encode()
    index = len(text) - len(data[len(data) - limit :].decode(errors="ignore"))
    return text[_boundaries(text, index)[1] :]


def _boundaries(text: str, index: int) -> tuple[int, int]:
    """Return the nearest places at or before `index`, and at or after it, that split no grapheme cluster."""
    if index in (0, len(text)):
        return index, index
    if _SURE.match(text, index):
        return index, index
    begin = index - 1
    while begin > 0 and index - begin < _FAR and not _SURE.match(text, begin):
        begin -= 1
    for cluster in _CLUSTER.finditer(text[begin : index + _LONGEST_CLUSTER + 1]):
        before, after = begin + cluster.start(), begin + cluster.end()
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
    return "\n".join([f"{label}> {line}" for line in text.splitlines() or [""]])


def quote_within(label: str, text: str, limit: int) -> str:
    """Quote `text` as `quote` does, cut like `clip` so that the quoted form has at most `limit` bytes.

    It is measured as quoted, since a short text of many lines may be long when each has its label.
    """
    quoted = quote(label, text)
    if size(quoted) <= limit:
        return quoted
    cut = _around_omission if size(quote(label, OMISSION)) <= limit else _start
    fits, too_long = 0, min(limit, size(text))
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if size(quote(label, cut(text, middle))) <= limit:
            fits = middle
        else:
            too_long = middle
    return quote(label, cut(text, fits))


__all__ = ["OMISSION", "clean", "clip", "quote", "quote_within", "size", "visible"]
