# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What may be written to a person's screen, and when."""

from __future__ import annotations

import logging
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

STANDARD_INPUT = 0
"""The file descriptor; reading it directly does not depend on what stands for it in `sys`."""

_ANSWERS = "xr_ai_conversation.nodes.answer"
"""The logger whose one warning is that an answer was cut off."""

_CUT_OFF = "the answer was cut off; it is stored as it stands"


def is_terminal() -> bool:
    """Tell whether a person types into standard input."""
    return os.isatty(STANDARD_INPUT)


def harmless(text: str) -> str:
    """Return text without the control characters by which it could steer a terminal."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) == "Cc" and char not in "\n\t" else char
        for char in text
    )


class Notices(logging.Handler):
    """Shows warnings as dim lines, and never in the middle of an answer.

    Args:
        console: Where.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console
        self._held: list[logging.LogRecord] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Show a warning now, or after the answer."""
        from rich.text import Text

        if self._held is not None:
            self._held.append(record)
        else:
            said = _CUT_OFF if record.name == _ANSWERS else harmless(self.format(record))
            text = Text(said, style="dim")
            if self._console.is_terminal:  # no more than a line
                self._console.print(text, no_wrap=True, overflow="ellipsis")
            else:
                self._console.print(text, soft_wrap=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep warnings back meanwhile."""
        held: list[logging.LogRecord] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
            for record in held:
                self.emit(record)


@contextmanager
def unechoed() -> Iterator[None]:
    """Keep what is typed meanwhile off the terminal that is standard input; the next prompt shows it."""
    if sys.platform == "win32" or not is_terminal():
        yield
        return
    import termios

    before = termios.tcgetattr(STANDARD_INPUT)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(STANDARD_INPUT, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(STANDARD_INPUT, termios.TCSANOW, before)


__all__ = ["STANDARD_INPUT", "Notices", "harmless", "is_terminal", "unechoed"]
