# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Deterministic graders, and the intervals of what they count."""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum


class Verdict(StrEnum):
    """What a text says of a probe's values."""

    CURRENT = "current"
    """It names a current value and no stale one."""
    STALE = "stale"
    """It names a stale value and no current one."""
    BOTH = "both"
    """It names a stale value beside a current one."""
    ABSTAINS = "abstains"
    """It names neither, and says that it does not know."""
    OTHER = "other"
    """It names neither, and says something else."""


_ABSTAINS = re.compile(
    r"\b(?:do|does|did)(?:n't| not) (?:know|mention|say|specify|recall|remember|tell|contain|include|state"
    r"|have (?:any|that|this|it|enough|(?:the )?(?:information|records?|details?|answer)))\b"
    r"|(?:\bnot|n't) (?:been )?(?:sure|aware|known|mentioned|specified|stated|said|told|given|provided|available"
    r"|clear|recorded)\b"
    r"|\b(?:unknown|unable to|no (?:information|record|mention|answer|idea|details?))\b"
    r"|\b(?:can't|cannot|can not|couldn't|could not) (?:say|tell|answer|recall|determine|find)\b"
)


def folded(text: str) -> str:
    """Return a text as it is compared: one form of each character, no case, plain apostrophes."""
    return unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")


def names(text: str, values: Iterable[str]) -> bool:
    """Tell whether a text names one of the values, as a word of its own; digits stand apart from Japanese."""
    found = folded(text)
    return any(re.search(rf"(?<![a-z0-9]){re.escape(folded(v))}(?![a-z0-9])", found) for v in values)


def abstains(text: str) -> bool:
    """Tell whether a text says that it does not know."""
    return _ABSTAINS.search(folded(text)) is not None


def verdict(text: str, current: Sequence[str], stale: Sequence[str]) -> Verdict:
    """Tell what a text, an answer or a prompt, says of the values of a probe."""
    now, then = names(text, current), names(text, stale)
    if now or then:
        return Verdict.BOTH if now and then else Verdict.CURRENT if now else Verdict.STALE
    return Verdict.ABSTAINS if abstains(text) else Verdict.OTHER


def right(text: str, current: Sequence[str], stale: Sequence[str]) -> bool:
    """Tell whether an answer is right: the current value and no stale one; where there is none, that it says so."""
    return verdict(text, current, stale) is (Verdict.CURRENT if current else Verdict.ABSTAINS)


def words(text: str) -> list[str]:
    """Return the words of a text as the graders of question answering count them: no articles, no punctuation."""
    plain = folded(text).translate(str.maketrans(string.punctuation, " " * len(string.punctuation)))
    return [word for word in plain.split() if word not in ("a", "an", "the", "and")]


def f1(answer: str, expected: str) -> float:
    """Return the F1 of the words that an answer shares with the expected one."""
    said, wanted = Counter(words(answer)), Counter(words(expected))
    shared = (said & wanted).total()
    if not shared:
        return float(said == wanted)
    precision, recall = shared / said.total(), shared / wanted.total()
    return 2 * precision * recall / (precision + recall)


_Z = 1.959964


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, after Wilson; of no trials it is the whole range."""
    if not trials:
        return 0.0, 1.0
    share, z2 = successes / trials, _Z * _Z
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return a mean with its 95 % interval, by the normal approximation; of one value, or none, it has no width."""
    if not values:
        return 0.0, 0.0, 0.0
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, mean, mean
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = _Z * math.sqrt(variance / len(values))
    return mean, mean - half, mean + half


__all__ = [
    "Verdict",
    "abstains",
    "f1",
    "folded",
    "mean_interval",
    "names",
    "right",
    "verdict",
    "wilson",
    "words",
]
