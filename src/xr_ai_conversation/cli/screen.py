# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What may be written to a person's screen, and when."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text


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
        if self._held is not None:
            self._held.append(record)
        else:
            self._console.print(Text(harmless(self.format(record))), style="dim", soft_wrap=True)

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


__all__ = ["Notices", "harmless"]
