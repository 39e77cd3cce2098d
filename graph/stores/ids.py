# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The ids of checkpoints, which are times of their writers' clocks, and tell which one is the newest."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from langgraph.checkpoint.base import id as checkpoint_ids

_LAST_ID_TIME = "_last_v6_timestamp"
_BEGINNING = datetime(1582, 10, 15, tzinfo=UTC)  # of the time in such an id, which counts in 100 ns


def sort_after(checkpoint_id: str | None) -> None:
    """See to it that the next checkpoint of this process sorts after another.

    Checkpoints are ordered by the clock of their writer: one that is written by a host whose clock is behind is
    never read again. The ids of a process count on from the last one, so it is enough to raise that; LangGraph
    has no public way to do it.
    """
    if checkpoint_id:
        last = getattr(checkpoint_ids, _LAST_ID_TIME) or 0
        setattr(checkpoint_ids, _LAST_ID_TIME, max(last, _v6_time(checkpoint_id)))


def first_id(time: datetime) -> str:
    """Return what the id of every checkpoint from `time` on is not less than."""
    since = time - _BEGINNING
    count = (since.days * 86_400 + since.seconds) * 10_000_000 + since.microseconds * 10
    return str(UUID(int=(count >> 12) << 80 | 6 << 76 | (count & 0x0FFF) << 64))


def _v6_time(checkpoint_id: str) -> int:
    """Return the time field of a version 6 UUID, which the standard library of Python 3.11 reads as version 1."""
    number = UUID(checkpoint_id).int
    return ((number >> 80) << 12) | ((number >> 64) & 0x0FFF)


__all__ = ["first_id", "sort_after"]
