"""Times, durations, and what stores hand out."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raystreams.stores.values import (
    NO_HEADERS,
    ValueAndTimestamp,
    VersionedRecord,
    Windowed,
    duration_milliseconds,
    to_datetime,
    to_milliseconds,
)

NOON = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_milliseconds_and_datetimes_are_the_same_time(milliseconds: int) -> None:
    assert to_milliseconds(to_datetime(milliseconds)) == milliseconds


def test_less_than_a_millisecond_is_cut() -> None:
    assert to_milliseconds(NOON + timedelta(microseconds=1_999)) == to_milliseconds(NOON) + 1


def test_one_instant_is_one_time_in_any_zone() -> None:
    assert to_milliseconds(NOON.astimezone(timezone(timedelta(hours=5)))) == to_milliseconds(NOON)


@pytest.mark.parametrize(
    ("time", "error", "text"),
    [
        (datetime(2024, 1, 1), ValueError, "has no time zone"),
        (2**63, ValueError, "64 bits"),
        (True, TypeError, "got bool"),
        (1.5, TypeError, "got float"),
        ("now", TypeError, "got str"),
    ],
)
def test_a_time_is_an_int_or_an_aware_datetime(time: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        to_milliseconds(time)  # type: ignore[arg-type]  # which is the point


def test_a_duration_is_an_int_or_a_timedelta() -> None:
    assert duration_milliseconds(timedelta(days=7), what="grace") == 604_800_000
    assert duration_milliseconds(-5, what="grace") == -5
    for wrong in (True, 1.5, "5m", None):
        with pytest.raises(TypeError, match="grace is a timedelta or an int"):
            duration_milliseconds(wrong, what="grace")  # type: ignore[arg-type]  # which is the point


def test_what_is_handed_out_tells_its_time() -> None:
    assert Windowed("k", 0, 1_000).end_time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)
    assert Windowed("k", 0, 1_000).start_time == ValueAndTimestamp(1, 0).time == VersionedRecord(1, 0).time
    assert len({Windowed("k", 0, 1), Windowed("k", 0, 1), Windowed("k", 0, 2)}) == 2
    with pytest.raises(AttributeError):
        Windowed("k", 0, 1).end = 5  # type: ignore[misc]  # which is the point
    with pytest.raises(TypeError):
        NO_HEADERS["a"] = b""  # type: ignore[index]  # which is the point
