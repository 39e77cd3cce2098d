# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A session without a terminal: one request a line comes in, only answers go out."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from xr_ai_conversation.cli.errors import Failure
from xr_ai_conversation.cli.screen import STANDARD_INPUT
from xr_ai_conversation.cli.session import Session, action_of


async def lines(descriptor: int = STANDARD_INPUT) -> AsyncIterator[str]:
    """Yield the lines of a file, a pipe or a terminal as they come, while the event loop goes on.

    Args:
        descriptor: The file descriptor to read; bytes that are no UTF-8 are replaced.

    Raises:
        Failure: It cannot be read.
    """
    if (
        descriptor == STANDARD_INPUT and sys.stdin is None
    ):  # it was closed, and the number is another file's now
        raise Failure("There is no standard input.")
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str | OSError | None] = asyncio.Queue()

    def deliver(item: str | OSError | None) -> None:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, item)
        except RuntimeError:
            pass  # the session has ended while this was read

    def read() -> None:
        try:
            with open(descriptor, "rb", closefd=False) as file:
                for line in file:
                    deliver(line.decode(errors="replace"))
            deliver(None)
        except OSError as error:
            deliver(error)

    # Waiting for a line cannot be cancelled: a daemon does not keep the process, as a thread of the loop's
    # executor would.
    threading.Thread(target=read, name="read standard input", daemon=True).start()
    while (item := await queue.get()) is not None:
        if isinstance(item, OSError):
            raise Failure(f"Standard input cannot be read: {(item.strerror or '').lower()}.") from item
        yield item


def wake_on_interrupt() -> None:
    """Let an interrupt wake the event loop also when it comes just before the loop goes to sleep.

    Without this, what asyncio does on an interrupt would then be done when the next line has come.
    """
    if sys.platform != "win32":
        handler = signal.getsignal(signal.SIGINT)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: None)
        signal.signal(signal.SIGINT, handler)


async def converse(
    session: Session, requests: AsyncIterator[str], say: Callable[[str], None], tell: Callable[[str], None]
) -> None:
    """Do what each line asks for; the first that cannot be done ends the session.

    An answer is written when it is whole and recorded, so that what was written is what is remembered.

    Args:
        session: Whose conversation it is.
        requests: The lines.
        say: Takes each answer.
        tell: Takes everything else that the person is told.

    Raises:
        Failure: A line is no command, or a note cannot be published. Errors of the model and the database
            are raised as they are.
    """
    async for line in requests:
        action, text = action_of(line)
        match action:
            case "ask":
                async with aclosing(session.answer(text)) as pieces:
                    say("".join([piece async for piece in pieces]).strip())
            case "note":
                tell(f"Noted on {await session.note(text)}.")
            case "help":
                tell(session.help)
            case "quit":
                return


__all__ = ["converse", "lines", "wake_on_interrupt"]
