# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A clock that is set by hand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


class Clock:
    """Tells the same time until it is moved; starts on 2026-03-02 14:00:00 at +01:00."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or datetime(2026, 3, 2, 14, 0, tzinfo=timezone(timedelta(hours=1)))

    def __call__(self) -> datetime:
        return self.now

    def move(self, **span: float) -> None:
        """Move on by a span, given as to `timedelta`."""
        self.now += timedelta(**span)


__all__ = ["Clock"]
