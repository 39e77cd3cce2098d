# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A session on a terminal: the answer is shown while it is made, and Ctrl-C stops it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from xr_ai_conversation.cli.errors import explained
from xr_ai_conversation.cli.screen import Notices, harmless, unechoed
from xr_ai_conversation.cli.session import Session, action_of
from xr_ai_conversation.cli.wrapping import Wrapping, line_width

KEYS = "Ctrl-D leaves, /help tells more"


async def converse(session: Session, console: Console, notices: Notices) -> None:
    """Prompt for lines and do what they ask for, until the person leaves.

    Whatever a line cannot do is said in one sentence, and the session goes on. Compaction goes on while the
    person types.

    Args:
        session: Whose conversation it is.
        console: Takes everything but the answers, which go to standard output.
        notices: Are held back while an answer is shown.
    """
    # the prompt is shown on a terminal also when standard output goes to a file
    with create_app_session(output=create_output(always_prefer_tty=True)):
        prompt: PromptSession[str] = PromptSession([("bold ansicyan", f"{session.participant} \u203a ")])
        while True:
            try:
                with patch_stdout(raw=True):
                    line = await prompt.prompt_async()
            except EOFError:
                return
            except KeyboardInterrupt:
                if not prompt.default_buffer.text:
                    console.print("Ctrl-D leaves\n", style="dim")
                continue
            try:
                action, text = action_of(line)
                with explained(session.database):
                    match action:
                        case "ask":
                            await _interruptible(_answer(session, text, console, notices), console)
                        case "note":
                            console.print(f"noted on {await session.note(text)}\n", style="dim", markup=False)
                        case "help":
                            console.print(f"{session.help}\n", style="dim", markup=False)
                        case "quit":
                            return
            except click.ClickException as error:
                console.print(f"{harmless(error.message)}\n", style="red", markup=False)


async def _answer(session: Session, request: str, console: Console, notices: Notices) -> None:
    lines = Wrapping(line_width())
    written = False
    with unechoed(), notices.held(), console.status("") as waiting:
        try:
            async with aclosing(session.answer(request)) as pieces:
                async for piece in pieces:
                    waiting.stop()
                    click.echo(lines.feed(harmless(piece)), nl=False)
                    written = True
        finally:
            waiting.stop()
            if written:
                click.echo(lines.end())
    console.print()


async def _interruptible(work: Coroutine[Any, Any, None], console: Console) -> None:
    """Await work that Ctrl-C cancels; that is said, and is no error."""
    task = asyncio.create_task(work, name="answer")
    try:
        with _on_interrupt(task.cancel):
            await asyncio.wait((task,))
    finally:
        task.cancel()
    if task.cancelled():
        console.print("cancelled\n", style="dim")
    else:
        task.result()


@contextmanager
def _on_interrupt(act: Callable[[], object]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(act))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


__all__ = ["KEYS", "converse"]
