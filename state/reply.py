# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The one gate that every reply of the summariser passes before it may replace anything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from xr_ai_conversation.state.reasoning import without_reasoning
from xr_ai_conversation.state.text import clean, size, visible


class Rejection(Enum):
    """Why a reply was not taken."""

    EMPTY = "empty"
    """Nothing, or nothing that can be seen."""
    REASONING_ONLY = "reasoning_only"
    """The model thought, and said nothing."""
    CUT_OFF = "cut_off"
    """The provider says that an output limit ended it."""
    REFUSED = "refused"
    """The provider's filter, or the model, declined."""
    FAILED = "failed"
    """The call, or the generation, ended in an error."""
    OVER_LIMIT = "over_limit"
    """Longer than its limit."""
    LARGER = "larger"
    """Longer than what it would replace."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model returned, without its provider's dress."""

    text: str
    """Its text as delivered; inline reasoning may still be in it."""
    reasoned: bool = False
    """It came with reasoning apart from the text."""
    finish: str = ""
    """The provider's finish reason, in its own spelling; empty if there was none."""
    refused: bool = False
    """The provider marked it as a refusal."""


_CUT_OFF = re.compile(r"length|max|limit|incomplete|truncat|window|pause|not_?finished|unfinished")
_FILTERED = re.compile(
    r"filter|safety|refus|block|recitation|prohibit|toxic|guardrail|spii|sensitive|moderat|policy|language"
)
_FAILED = re.compile(
    r"error|fail|abort|cancel|malformed|insufficient|time_?out|timed|interrupt|unexpected|\bother\b"
)
_DECLINES = re.compile(
    r"(i['\u2019]?m sorry|i am sorry|sorry|i apologi[sz]e|unfortunately)?[,.:; ]*(but )?(as an ai[^,.]*, )?"
    r"(i can['\u2019]?t|i cannot|i can not|i['\u2019]?m (not able|unable) to|i am (not able|unable) to|i won['\u2019]?t)"
    r" (assist|help|comply|provide|summari[sz]e|continue|fulfil|do that|complete|create|generate|write)",
    re.IGNORECASE,
)
# A heading that many models begin with. Of what follows only markup goes, no sign of a number or currency.
_LABEL = re.compile(r"\A[\s*_#]*(?:the )?(?:summary|facts)[\s*_]*:[\s*_]*", re.IGNORECASE)
_LONGEST_REFUSAL = 400  # characters; a longer text that begins like a refusal says more than that


def cut_off(finish: str) -> bool:
    """Tell whether a finish reason, in any provider's spelling, says that an output limit ended the reply."""
    return bool(_CUT_OFF.search(finish.lower()))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of a reply."""

    text: str
    """The text of the reply without reasoning, ready to be stored if it is accepted."""
    rejection: Rejection | None
    """Why it is not taken; None if it is accepted."""


def judge(reply: Reply, *, limit: int, replaces: int) -> Verdict:
    """Accept a reply as a summary, or name why not.

    Args:
        reply: What the summariser returned.
        limit: The most UTF-8 bytes that the summary may have.
        replaces: UTF-8 bytes, as rendered, of what the summary would replace.
    """
    text = _LABEL.sub("", clean(without_reasoning(reply.text)).strip(), count=1)
    return Verdict(text, _rejection(reply, text, limit, replaces))


def _rejection(reply: Reply, text: str, limit: int, replaces: int) -> Rejection | None:
    finish = reply.finish.lower()
    if reply.refused or _FILTERED.search(finish):
        return Rejection.REFUSED
    if _CUT_OFF.search(finish):
        return Rejection.CUT_OFF
    if _FAILED.search(finish):
        return Rejection.FAILED
    if not visible(text):
        return Rejection.REASONING_ONLY if reply.reasoned or visible(reply.text) else Rejection.EMPTY
    if len(text) <= _LONGEST_REFUSAL and _DECLINES.match(text):
        return Rejection.REFUSED
    if size(text) > limit:
        return Rejection.OVER_LIMIT
    if size(text) > replaces:
        return Rejection.LARGER
    return None


__all__ = ["Rejection", "Reply", "Verdict", "cut_off", "judge"]
