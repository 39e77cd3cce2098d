# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A session on a terminal: the answer is shown while it is made, and Ctrl-C stops it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.text import Text

from xr_ai_conversation.cli.errors import Failure
from xr_ai_conversation.cli.pictures import harmless
from xr_ai_conversation.cli.session import HELP, Session, action_of

KEYS = "Ctrl-C stops an answer, Ctrl-D leaves, /help"


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
        self._held = held = []
        try:
            yield
        finally:
            self._held = None
            for record in held:
                self.emit(record)


async def converse(session: Session, console: Console, notices: Notices, explained: Callable) -> None:
    pass


__all__ = ["KEYS", "Notices", "converse"]
