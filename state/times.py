# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Points in time as they are stored and as they are shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = (
    (day - _EPOCH) // timedelta(microseconds=1)
    for day in (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
)


def stamp(time: datetime) -> str:
    """Return the stored form of a time: ISO 8601 with microseconds and the offset of its zone.

    Raises:
        ValueError: `time` has no zone.
    """
    if time.tzinfo is None:
        raise ValueError(f"time must have a time zone, got {time.isoformat()}")
    return time.isoformat(timespec="microseconds")


def from_microseconds(timestamp_us: int) -> datetime:
    """Return the time, in UTC, of Unix microseconds.

    Raises:
        TypeError: It is no integer.
        ValueError: It is not in the years 1 to 9999 in every zone.
    """
    if not isinstance(timestamp_us, int):
        raise TypeError(f"timestamp_us must be an integer, got {type(timestamp_us).__name__}")
    if not _FIRST <= timestamp_us <= _LAST:
        raise ValueError(f"timestamp_us must be Unix microseconds of the years 1 to 9999, got {timestamp_us}")
    return _EPOCH + timedelta(microseconds=timestamp_us)


def instant(stamped: str) -> datetime:
    """Return the time, with its zone, that `stamp` stored."""
    return datetime.fromisoformat(stamped)


def checked(stamped: str) -> str:
    """Return a stored time as it is.

    Raises:
        ValueError: It is none that `stamp` wrote; the message does not tell it.
    """
    try:
        if stamp(instant(stamped)) == stamped:
            return stamped
    except ValueError:
        pass
    raise ValueError("it must be a date and time with a zone")


def shown(stamped: str) -> str:
    """Return a stored time as a model and a person read it: date, local time and zone.

    It depends on nothing but its argument, so a time once shown is shown the same for ever.
    """
    return f"{stamped[:10]} {stamped[11:19]} {stamped[26:]}"


__all__ = ["checked", "from_microseconds", "instant", "shown", "stamp"]
