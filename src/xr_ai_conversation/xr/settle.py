# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Work of others: what came of it, and waiting until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Failure:
    """What a call raised instead of returning."""

    error: BaseException
    """The error."""


async def attempt(work: Awaitable[_T]) -> _T | Failure:
    """Await foreign work and return what it returned or raised; only a cancellation of the caller passes.

    A callee may cancel itself, raise something else on a cancellation, or swallow it: neither is the first taken
    for a cancellation of the caller, nor do the others hide one.

    Args:
        work: It has ended when this returns or raises.
    """
    outcome: _T | Failure
    try:
        outcome = await work
    except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:  # noqa: BLE001 - it is returned
        outcome = Failure(error)
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    return outcome


def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, once: a second cancellation would cut short the clean-up of the first."""
    if not task.cancelling():
        task.cancel()


async def settle(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until all tasks are done, and then raise what went wrong.

    A cancellation is passed on to those that are not done, and raised when they are.

    Args:
        tasks: They belong to the caller alone.

    Raises:
        BaseExceptionGroup: Tasks failed or were cancelled; an `ExceptionGroup` if none was cancelled.
    """
    cancelled: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
            for task in pending:
                task.cancel()
    errors: list[BaseException] = []
    for task in tasks:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            errors.append(error)
    group = BaseExceptionGroup("errors during event publication", errors) if errors else None
    if cancelled is not None:
        raise cancelled from group
    if group is not None:
        raise group


__all__ = ["Failure", "attempt", "cancel", "settle"]
