"""Time and the values that stores hand out.

A timestamp is an `int`, milliseconds since the epoch (UTC), or an aware `datetime`, which is cut to milliseconds. A
duration is a `timedelta` or an `int`, milliseconds. A time window is `[start, end)`: its end is outside. A session and
the bounds of every fetch include both ends, as in Kafka. Windows and sessions are both a `Windowed` key.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any, Generic

import msgspec
from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)

Time = int | datetime
Duration = int | timedelta
Headers = Mapping[str, bytes]

NO_HEADERS: Headers = MappingProxyType({})

PUT_LATEST = -1
"""`put` of a versioned store: the new version is its key's latest (KIP-914: an open validTo)."""

PUT_REFUSED = -(2**63)
"""`put` of a versioned store: older than the history retention, nothing was stored (KIP-914: Long.MIN_VALUE)."""

MAX_TIME = 2**63 - 1
MIN_TIME = -(2**63)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)


def to_milliseconds(time: Time) -> int:
    """Return a time as milliseconds since the epoch; sub-milliseconds are cut. A naive datetime is a ValueError.

    >>> to_milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=timezone.utc))
    1000
    """
    if type(time) is int and MIN_TIME <= time <= MAX_TIME:  # by far the most frequent case
        return time
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"the time {time!r} has no time zone: give it one, e.g. tzinfo=timezone.utc")
        return (time - _EPOCH) // _MILLISECOND
    if isinstance(time, int) and not isinstance(time, bool):
        if not MIN_TIME <= time <= MAX_TIME:
            raise ValueError(f"the time {time} does not fit 64 bits of milliseconds")
        return int(time)
    raise TypeError(f"a time is an int of milliseconds or an aware datetime, got {type(time).__name__} {time!r}")


def duration_milliseconds(duration: Duration, *, what: str) -> int:
    """Return a duration in milliseconds; `what` names it in errors. It may be negative: its user knows if that is wrong."""
    if isinstance(duration, timedelta):
        return duration // _MILLISECOND
    if isinstance(duration, int) and not isinstance(duration, bool):
        if not MIN_TIME <= duration <= MAX_TIME:
            raise ValueError(f"{what}={duration} does not fit 64 bits of milliseconds")
        return int(duration)
    raise TypeError(f"{what} is a timedelta or an int of milliseconds, got {type(duration).__name__} {duration!r}")


def to_datetime(milliseconds: int) -> datetime:
    """Return milliseconds since the epoch as an aware datetime in UTC; OverflowError past the year 9999."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


class ValueAndTimestamp(msgspec.Struct, Generic[V], frozen=True):
    """A value of a timestamped store, with the time of the record that wrote it."""

    value: V
    timestamp: int

    @property
    def time(self) -> datetime:
        """The timestamp as an aware datetime."""
        return to_datetime(self.timestamp)


class VersionedRecord(msgspec.Struct, Generic[V], frozen=True):
    """A version: valid from `timestamp` until before `valid_to`, which is None for the latest one."""

    value: V
    timestamp: int
    valid_to: int | None = None

    @property
    def time(self) -> datetime:
        """The timestamp as an aware datetime."""
        return to_datetime(self.timestamp)


class Windowed(msgspec.Struct, Generic[K], frozen=True):
    """A key of a windowed table: `[start, end)` for time windows, both ends included for sessions."""

    key: K
    start: int
    end: int

    @property
    def start_time(self) -> datetime:
        """The start as an aware datetime."""
        return to_datetime(self.start)

    @property
    def end_time(self) -> datetime:
        """The end as an aware datetime."""
        return to_datetime(self.end)
