"""Timestamps of rows, in the forms that files have them."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from raystreams.cluster.connectors.timestamps import RowError, TimeColumn, Unit

NOON = 1_372_680_000_000  # 2013-07-01T12:00:00Z


def milliseconds(*values: Any, unit: Unit = "ms", zone: str | None = None, text_format: str | None = None) -> list[int]:
    return TimeColumn("at", unit, zone, text_format).milliseconds(values)


@pytest.mark.parametrize(
    "text",
    [
        "2013-07-01T12:00:00Z",
        "2013-07-01 12:00:00Z",
        "2013-07-01T12:00Z",
        "2013-07-01T14:00:00+02:00",
        "2013-07-01T12:00:00.000999Z",
        "1372680000000",
        "1372680000000.9",
    ],
)
def test_texts_are_iso_8601_or_numbers(text: str) -> None:
    assert milliseconds(text) == [NOON]


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (1_372_680_000, "s"),
        (1_372_680_000.0, "s"),
        (Decimal("1372680000"), "s"),
        ("1372680000", "s"),
        (1_372_680_000_000, "ms"),
        (1_372_680_000_000_999, "us"),
        (1_372_680_000_000_999_999, "ns"),
    ],
)
def test_numbers_are_since_the_epoch_in_the_declared_unit(value: Any, unit: Unit) -> None:
    assert milliseconds(value, unit=unit) == [NOON]


def test_fractions_of_seconds_are_exact_to_the_millisecond() -> None:
    assert milliseconds(1.001, 1.0019999, -0.001, unit="s") == [1001, 1001, -1]
    assert milliseconds("1.001", "-0.0001", unit="s") == [1001, -1]


def test_what_has_no_zone_is_in_the_declared_one() -> None:
    assert milliseconds("2013-07-01 14:00:00", zone="Europe/Berlin") == [NOON]
    assert milliseconds(datetime(2013, 7, 1, 8), zone="America/New_York") == [NOON]
    assert milliseconds("2013-07-01", date(2013, 7, 1), zone="UTC") == [NOON - 43_200_000] * 2


def test_a_zone_of_its_own_wins_over_the_declared_one() -> None:
    assert milliseconds("2013-07-01T12:00:00Z", zone="Europe/Berlin") == [NOON]
    assert milliseconds(datetime(2013, 7, 1, 13, tzinfo=timezone(timedelta(hours=1))), zone="UTC") == [NOON]


def test_without_any_zone_it_is_an_error_and_no_guess() -> None:
    with pytest.raises(RowError, match="column 'at' has '2013-07-01 12:00:00', which has no time zone; set time_zone"):
        milliseconds("2013-07-01 12:00:00")


def test_a_format_of_its_own() -> None:
    assert milliseconds("01/07/2013 12:00", text_format="%d/%m/%Y %H:%M", zone="UTC") == [NOON]

    with pytest.raises(RowError, match="has '2013-07-01', which is not of the timestamp_format '%d/%m/%Y'"):
        milliseconds("2013-07-01", text_format="%d/%m/%Y", zone="UTC")


def test_kinds_may_be_mixed_in_a_column() -> None:
    assert milliseconds("2013-07-01T12:00:00Z", NOON, datetime(2013, 7, 1, 12, tzinfo=timezone.utc)) == [NOON] * 3


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "column 'at' has no timestamp"),
        ("soon", "column 'at' has 'soon', which is no timestamp"),
        ("", "column 'at' has '', which is no timestamp"),
        (True, "column 'at' has True, a bool, which is no timestamp"),
        (float("nan"), "column 'at' has nan, which is no timestamp"),
        ([1], "column 'at' has \\[1\\], a list, which is no timestamp"),
        (2**80, "no time in 64 bits"),
    ],
)
def test_what_is_no_timestamp_is_named(value: Any, reason: str) -> None:
    with pytest.raises(RowError, match=reason):
        milliseconds(value, unit="s")


def test_milliseconds_beyond_64_bits_are_no_timestamp() -> None:
    with pytest.raises(RowError, match="no time in 64 bits"):
        milliseconds(10**30)


def test_an_unknown_zone_or_unit_is_refused_with_the_right_one() -> None:
    with pytest.raises(ValueError, match="no time zone 'Europe/Berlni'; did you mean 'Europe/Berlin'"):
        TimeColumn("at", "ms", "Europe/Berlni", None)
    with pytest.raises(ValueError, match="'sec' is not one of s, ms, us, ns"):
        TimeColumn("at", "sec", None, None)  # type: ignore[arg-type]  # that is the point
