"""From a column of rows to timestamps: milliseconds since the epoch (UTC).

    text     ISO 8601, or a number, or what `format` says (strptime)
    number   since the epoch, in `unit` ("ms" unless declared)
    datetime, date   as they are

What has no zone of its own is in `zone`; without that it is an error, never a guess. Sub-milliseconds are cut. Most files have
the same time in many rows, so a text is parsed once per batch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime, timezone, tzinfo
from decimal import Decimal
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import msgspec
from raystreams.cluster.suggest import did_you_mean
from raystreams.stores.values import MAX_TIME, MIN_TIME, to_milliseconds

Unit = Literal["s", "ms", "us", "ns"]

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NUMBER = re.compile(r"\s*[-+]?\d+(\.\d*)?\s*\Z")


class RowError(ValueError):
    """A row can't be a record; the text is the reason."""


def zone_of(name: str | None) -> tzinfo | None:
    """Return a zone by its name in the tz database; a ValueError suggests the right one."""
    if name is None:
        return None
    if name.upper() in ("UTC", "Z"):
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = did_you_mean(name, available_timezones())
        raise ValueError(f"time_zone: no time zone {name!r}{near if 'did you' in near else ''}") from error


class TimeColumn:
    """Turns the values of one column into timestamps."""

    def __init__(self, column: str, unit: Unit, zone: str | None, text_format: str | None) -> None:
        if unit not in _PER_SECOND:
            raise ValueError(f"timestamp_unit: {unit!r} is not one of {', '.join(get_args(Unit))}")
        self._column, self._zone, self._format = column, zone_of(zone), text_format
        self._per_second = _PER_SECOND[unit]
        self._is_milliseconds = unit == "ms"

    def milliseconds(self, values: Sequence[Any]) -> list[int]:
        """Return the timestamps of a batch; a RowError if any of them is none."""
        kinds = set(map(type, values))
        if kinds == {int} and self._is_milliseconds and min(values) >= MIN_TIME and max(values) <= MAX_TIME:
            return list(values)
        if kinds == {str}:
            parsed = {text: self._text(text) for text in dict.fromkeys(values)}
            return [parsed[text] for text in values]
        return [self._one(value) for value in values]

    def _one(self, value: Any) -> int:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, datetime):
            return self._datetime(value, value)
        if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
            return self._number(value)
        if isinstance(value, date):
            return self._datetime(datetime(value.year, value.month, value.day), value)
        if value is None:
            raise RowError(f"column {self._column!r} has no timestamp")
        if hasattr(value, "__index__") and not isinstance(value, bool):
            return self._number(value.__index__())
        raise RowError(f"column {self._column!r} has {value!r}, a {type(value).__name__}, which is no timestamp")

    def _text(self, text: str) -> int:
        if self._format is not None:
            try:
                return self._datetime(datetime.strptime(text, self._format), text)
            except ValueError as error:
                raise RowError(
                    f"column {self._column!r} has {text!r}, which is not of the timestamp_format {self._format!r}"
                ) from error
        if _NUMBER.match(text):
            return self._number(Decimal(text.strip()))
        try:
            return self._datetime(msgspec.convert(text, datetime), text)
        except msgspec.ValidationError:
            pass
        try:
            # What RFC 3339 lacks: no seconds, no time, a week date. Python 3.10 doesn't read the Z.
            return self._datetime(datetime.fromisoformat(text.strip().replace("Z", "+00:00")), text)
        except ValueError as error:
            if isinstance(error, RowError):
                raise
            raise RowError(
                f"column {self._column!r} has {text!r}, which is no timestamp (ISO 8601, or a number since the epoch)"
            ) from error

    def _datetime(self, time: datetime, given: Any) -> int:
        if time.tzinfo is None:
            if self._zone is None:
                raise RowError(f"column {self._column!r} has {given!r}, which has no time zone; set time_zone, e.g. to \"UTC\"")
            time = time.replace(tzinfo=self._zone)
        return to_milliseconds(time)

    def _number(self, number: int | float | Decimal) -> int:
        if isinstance(number, int):
            milliseconds = number * 1000 // self._per_second
        elif math.isfinite(number):
            # As it is written: 1.001 s is 1001 ms, while the float times 1000 would be cut to 1000.
            milliseconds = math.floor(Decimal(str(number)) * 1000 / self._per_second)
        else:
            raise RowError(f"column {self._column!r} has {number!r}, which is no timestamp")
        try:
            return to_milliseconds(milliseconds)
        except ValueError as error:
            raise RowError(f"column {self._column!r} has {number}, which is no time in 64 bits of milliseconds") from error
