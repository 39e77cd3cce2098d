# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Answers broken between words, which a terminal would break in the middle of them."""

from __future__ import annotations

import math
import shutil
import sys

import regex
from rich.cells import cell_len

# Wide characters are words of their own: their scripts put no spaces between words.
_WHOLE_WORD = regex.compile(r"(\s*+)((?=\p{ea=W})\X|[^\s\p{ea=W}]++)(?=.)", regex.DOTALL)


def line_width() -> float:
    """Return the cells of a line of standard output; a file or a pipe has no end of line."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf


def wrapped(text: str) -> str:
    """Return a whole text as it is written to standard output."""
    lines = Wrapping(line_width())
    return lines.feed(text) + lines.end()


class Wrapping:
    """Breaks a text that comes in pieces before each word that does not fit on its line.

    Args:
        width: Cells of a line.
    """

    def __init__(self, width: float) -> None:
        self._width = width
        self._column = 0
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what can be shown now; the last word is held back, as it may go on in the next piece."""
        shown, end = [], 0
        text = self._held + piece
        for word in _WHOLE_WORD.finditer(text):
            shown.append(self._placed(word[1], word[2]))
            end = word.end()
        self._held = text[end:]
        return "".join(shown)

    def end(self) -> str:
        """Return the last word; white space after it is left out."""
        return self.feed("\n")

    def _placed(self, space: str, word: str) -> str:
        _, line_break, indent = space.rpartition("\n")
        column = len((" " * (0 if line_break else self._column) + indent).expandtabs())
        length = cell_len(word)
        if column + length > self._width and column and not line_break:
            space, column = "\n", 0
        end = column + length
        # a word that is longer than a line is left to the terminal
        self._column = end if end <= self._width else int(end % self._width)
        return space + word


__all__ = ["Wrapping", "line_width", "wrapped"]
