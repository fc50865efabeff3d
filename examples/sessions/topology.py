"""Readings of machines that come late: when each worked, and how hot it was, minute by minute.

    readings --sessions of 5 minutes' quiet, on close--> work
             --windows of 10 minutes, every 5, final results only--> means --above the limit--> alerts
             --what is too late for its windows--> late
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import raystreams as rs

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Reading:
    celsius: float


@dataclass(frozen=True)
class Mean:
    n: int = 0
    total: float = 0.0


@dataclass(frozen=True)
class Alert:
    since: datetime
    mean: float


@dataclass
class Work:
    readings: int = 0
    hottest: float = 0.0


READINGS = rs.Topic("readings", key=str, value=Reading)
LATE = rs.Topic("late", key=str, value=Reading)
ALERTS = rs.Topic("alerts", key=str, value=Alert)
WORK = rs.Topic("work", key=rs.Windowed[str], value=Work)


def add(machine: str, reading: Reading, mean: Mean) -> Mean:
    return Mean(mean.n + 1, mean.total + reading.celsius)


def alert(window: rs.Windowed[str], mean: Mean) -> tuple[str, Alert]:
    return window.key, Alert(window.start_time, mean.total / mean.n)


def work(machine: str, reading: Reading, so_far: Work) -> Work:
    return Work(so_far.readings + 1, max(so_far.hottest, reading.celsius))


def joined(machine: str, a: Work, b: Work) -> Work:
    return Work(a.readings + b.readings, max(a.hottest, b.hottest))


def build(*, limit: float = 80, grace: timedelta = 2 * MINUTE) -> rs.Topology:
    builder = rs.StreamsBuilder()
    readings = builder.stream(READINGS).group_by_key()
    windows = rs.TimeWindows(10 * MINUTE, advance=5 * MINUTE, grace=grace)
    (
        readings.windowed_by(windows, late_records_to=LATE)
        .aggregate(Mean, add, name="means")
        .suppress(rs.Suppressed.until_window_closes(), name="final")
        .to_stream()
        .filter(lambda window, mean: mean.total / mean.n > limit)
        .map(alert)
        .to(ALERTS)
    )
    (
        readings.windowed_by(rs.SessionWindows(5 * MINUTE, grace=grace))
        .emit_strategy(rs.EmitStrategy.on_window_close())
        .aggregate(Work, work, joined, name="sessions")
        .to_stream()
        .to(WORK)
    )
    return builder.build()
