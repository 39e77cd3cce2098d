# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Work that has ended, one way or another, when the call that began it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import aclosing, suppress
from contextvars import Context
from typing import Any, TypeVar

_T = TypeVar("_T")


async def ended(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Wait until all tasks or futures are done, whatever they end with; a cancellation meanwhile goes on then."""
    waiting = set(tasks)
    cancelled: asyncio.CancelledError | None = None
    while pending := {task for task in waiting if not task.done()}:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is not None:
        raise cancelled


async def unbroken(work: Coroutine[Any, Any, _T], name: str, context: Context | None = None) -> _T:
    """Await work that a cancellation must not cut short; a cancellation meanwhile goes on when it is done.

    Args:
        work: It runs in a task of its own.
        name: Name of the task.
        context: The context variables that it sees; None is none, so that no callback of a graph that it is
            called from reaches it.

    Returns:
        What the work returns.
    """
    task = asyncio.get_running_loop().create_task(work, name=name, context=context or Context())
    try:
        await ended((task,))
    except asyncio.CancelledError as cancellation:
        raise cancellation from _failure(task)
    return task.result()


async def drained(work: Coroutine[Any, Any, _T], name: str) -> _T:
    """Await work that is cancelled once at most: further cancellations do not cut short the clean-up of the first.

    Args:
        work: It runs in a task of its own, and has ended when this returns or raises.
        name: Name of the task.

    Returns:
        What the work returns.
    """
    task = asyncio.create_task(work, name=name)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError as cancellation:
        task.cancel()
        with suppress(asyncio.CancelledError):  # a further one says no more than the first
            await ended((task,))
        raise cancellation from _failure(task)
    return task.result()


async def drawn(source: AsyncGenerator[_T, None], name: str) -> AsyncGenerator[_T, None]:
    """Yield what a generator yields, which has ended when this is left, in whatever way and however often cancelled.

    Args:
        source: It runs in a task of its own, ahead of who draws from it.
        name: Name of the task.
    """
    items: asyncio.Queue[_T | None] = asyncio.Queue()

    async def run() -> None:
        try:
            async with aclosing(source):
                async for item in source:
                    items.put_nowait(item)
        finally:
            items.put_nowait(None)

    task = asyncio.create_task(run(), name=name)
    try:
        while (item := await items.get()) is not None:
            yield item
        await ended((task,))
    finally:
        task.cancel()
        await ended((task,))
        failure = _failure(task)
    if failure is not None:
        raise failure


def _failure(task: asyncio.Task[Any]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


__all__ = ["drained", "drawn", "ended", "unbroken"]
