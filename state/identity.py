# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Which exchange is which: short identities, and what of a router's history is new."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b

LENGTH = 16
"""Characters of one identity. Known identities are kept packed in one string, one after the other."""

_WORDS = 12  # the first characters tell what was said (9 bytes), the last four the turn (3 bytes)
_NO_TURN = "AAAA"


def identity(request: str, response: str, turn_id: str | None = None) -> str:
    """Return the identity of an exchange.

    Args:
        request: What the participant said.
        response: What was answered.
        turn_id: The id of the turn, where the caller has one.

    Returns:
        `LENGTH` characters: the first part is the same for the same words, the last for the same turn id.
    """
    asked = request.encode(errors="surrogatepass")
    said = response.encode(errors="surrogatepass")
    digest = blake2b(len(asked).to_bytes(8) + asked + said, digest_size=9).digest()
    return _base64(digest) + (_turn(turn_id) if turn_id else _NO_TURN)


def _turn(turn_id: str) -> str:
    turn = _base64(blake2b(turn_id.encode(errors="surrogatepass"), digest_size=3).digest())
    return turn if turn != _NO_TURN else "AAAB"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def words(name: str) -> str:
    """Return the part of an identity that tells what was said."""
    return name[:_WORDS]


def same(one: str, other: str) -> bool:
    """Tell whether two identities are of one exchange: equal words, and turn ids equal or not known of both."""
    return one[:_WORDS] == other[:_WORDS] and (
        one[_WORDS:] == other[_WORDS:] or _NO_TURN in (one[_WORDS:], other[_WORDS:])
    )


def has_turn(name: str) -> bool:
    """Tell whether an identity names the turn of its exchange; the empty one of an interrupted exchange does not."""
    return name[_WORDS:] not in ("", _NO_TURN)


def unpacked(known: str) -> set[str]:
    """Return the packed identities as a set."""
    return {known[start : start + LENGTH] for start in range(0, len(known), LENGTH)}


def recorded(known: str, new: str) -> bool:
    """Tell whether an exchange of the same turn id and the same words is among the known ones.

    The same words without a turn id may be said again, so they are never recorded already.

    Args:
        known: Packed identities.
        new: The identity of an exchange to be recorded.
    """
    return has_turn(new) and any(position % LENGTH == 0 for position in _find(known, new))


def unknown_from(known: str, window: Sequence[str]) -> int:
    """Return how many exchanges at the start of a history window are known.

    The longest end of what is known that is a beginning of the window is known. A window of two or more that
    lies inside what is known, in one piece, is a stale one and known whole.

    Args:
        known: Packed identities, in the order of recording.
        window: Identities of a router's completed history, oldest first.

    Returns:
        The number of leading exchanges of the window that are known; the rest is new.
    """
    total = len(known) // LENGTH
    for count in range(min(total, len(window)), 0, -1):
        if _matches(known, total - count, window[:count]):
            return count
    if len(window) >= 2:
        for position in _find(known, window[0][:_WORDS]):
            start, rest = divmod(position, LENGTH)
            if rest == 0 and start + len(window) <= total and _matches(known, start, window):
                return len(window)
    return 0


def missing(known: str, window: Sequence[str]) -> list[int]:
    """Return which exchanges of a history were not recorded as often as they are in it, by their words alone.

    Their order does not count, nor what was recorded between them: a history of messages has one answer of a turn in
    which several agents answered.

    Args:
        known: Packed identities.
        window: Identities of the exchanges of the history.
    """
    left = Counter(known[start : start + _WORDS] for start in range(0, len(known), LENGTH))
    found: list[int] = []
    for number, name in enumerate(window):
        left[words(name)] -= 1
        if left[words(name)] < 0:
            found.append(number)
    return found


def _matches(known: str, start: int, window: Sequence[str]) -> bool:
    return all(
        same(known[(start + offset) * LENGTH : (start + offset + 1) * LENGTH], one)
        for offset, one in enumerate(window)
    )


def _find(known: str, part: str) -> Iterator[int]:
    position = known.find(part)
    while position != -1:
        yield position
        position = known.find(part, position + 1)


__all__ = [
    "LENGTH",
    "has_turn",
    "identity",
    "missing",
    "recorded",
    "same",
    "unknown_from",
    "unpacked",
    "words",
]
