# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a model thought aloud between tags, told apart from what it says."""

from __future__ import annotations

import codecs
import re

from xr_ai_conversation.state.text import visible

_TAGS = "think|thinking|thought|reasoning"
_ANY_CASE = re.IGNORECASE | re.ASCII  # else the dotless i and the long s would count as i and s
_OPEN = re.compile(rf"<({_TAGS})>", _ANY_CASE)
_CLOSE = re.compile(rf"</({_TAGS})>", _ANY_CASE)
_BREAK = re.compile(r"[\r\n]")
_LONGEST_TAG = len("</reasoning>")


def without_reasoning(text: str) -> str:
    """Return a whole reply without the reasoning in it.

    A tag that is never closed hides all after it; a closing tag that was never opened, as templates that open
    it themselves leave it, hides all before it.
    """
    speech = Speech()
    said = speech.feed(text) + speech.end()
    closing = None
    for closing in _CLOSE.finditer(said):  # noqa: B007 - the last one is wanted
        pass
    return said[closing.end() :] if closing else said


class Speech:
    """What of a streamed answer is said: its text without reasoning, from the first visible character on.

    Feed it the text of each chunk; what it returns, joined, is the answer. Only what may yet become a tag, half
    of a surrogate pair, blanks before the first word, and line breaks that may be the last are held back.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")
        self._held = ""
        self._thinking = False
        self._begun = False
        self._blank = ""  # what came before the first visible character, or line breaks that may be the last

    def feed(self, text: str) -> str:
        """Return what can be said after the next piece of text; it may be empty."""
        self._held += self._decoder.decode(text.encode("utf-16-le", "surrogatepass"))
        return self._said(final=False)

    def end(self) -> str:
        """Return what was held back, now that no more text comes."""
        self._held += self._decoder.decode(b"", True)
        return self._said(final=True)

    def _said(self, *, final: bool) -> str:
        said: list[str] = []
        while tag := (_CLOSE if self._thinking else _OPEN).search(self._held):
            if not self._thinking:
                said.append(self._held[: tag.start()])
            self._held = self._held[tag.end() :]
            self._thinking = not self._thinking
        keep = 0 if final else _unfinished(self._held)
        ready, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        if not self._thinking:
            said.append(ready)
        text = self._blank + "".join(said)
        if not self._begun:
            if not visible(text):
                self._blank = text
                return ""
            self._begun, text = True, text.lstrip()
        blank = text[len(text.rstrip()) :]
        breaks = _BREAK.search(blank)
        spoken = text[: len(text) - len(blank) + breaks.start()] if breaks else text
        self._blank = text[len(spoken) :]
        return spoken


def _unfinished(text: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of a tag."""
    start = text.rfind("<", max(0, len(text) - _LONGEST_TAG + 1))
    if start == -1 or not re.fullmatch(r"</?[a-z]*", text[start:], _ANY_CASE):
        return 0
    word = text[start:].lstrip("</").lower()
    return len(text) - start if any(tag.startswith(word) for tag in _TAGS.split("|")) else 0


__all__ = ["Speech", "without_reasoning"]
