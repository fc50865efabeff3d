"""Punctuators: functions called as time passes (spec-runtime 5.3, vectors L)."""

from __future__ import annotations

from typing import Any

import pytest

from raystreams import ProcessingError, Record, Topology, TopologyTestDriver
from tests.operators.processors import Base, Context, outputs, topology


def scheduled(interval: int, clock: str, until: int | None = None) -> Topology:
    """A processor that forwards the times at which it is called; it cancels itself after `until` calls."""

    class Clock(Base):
        def init(self, context: Context) -> None:
            self.calls = 0
            self.context = context
            self.schedule = context.schedule(interval, self.call, clock=clock)

        def call(self, now: int) -> None:
            self.calls += 1
            if self.calls == until:
                self.schedule.cancel()
            self.context.forward(Record("fired", now, now))

        def process(self, record: Record[str, Any]) -> None: ...

    return topology(Clock)


@pytest.mark.parametrize(
    ("times", "fired"),
    [
        ([42, 42, 51, 52, 61, 65, 71, 72, 95, 101, 102], [42, 51, 61, 71, 95, 101]),
        ([20, 25, 142, 145, 155, 159, 160, 161], [20, 142, 155, 160]),
    ],
    ids=["L1", "L2"],
)
def test_stream_time_schedules_keep_to_their_grid(times: list[int], fired: list[int]) -> None:
    with TopologyTestDriver(scheduled(10, "stream")) as driver:
        for time in times:
            driver.input_topic("in").send("x", key="k", timestamp=time)

        assert outputs(driver) == [("fired", time, time) for time in fired]


@pytest.mark.parametrize(
    ("steps", "fired"),
    [
        ([5, 9, 1, 20, 5], [14, 35, 40]),
        ([10, 10, 9, 1, 20, 0], [10, 20, 30, 50]),
        ([100, 10, 12, 7, 1, 105, 5], [100, 110, 122, 130, 235, 240]),
    ],
    ids=["L3", "L4", "L5"],
)
def test_wall_clock_schedules_begin_one_interval_after_the_start(steps: list[int], fired: list[int]) -> None:
    with TopologyTestDriver(scheduled(10, "wall"), wall_clock=0) as driver:
        for step in steps:
            driver.advance_wall_clock(step)

        assert outputs(driver) == [("fired", time, time) for time in fired]


def test_l6_missed_intervals_collapse_into_one_call() -> None:
    with TopologyTestDriver(scheduled(100, "wall"), wall_clock=0) as driver:
        now = 0
        for check in (99, 100, 199, 200, 1001, 1002, 1100):
            driver.advance_wall_clock(check - now)
            now = check

        assert [time for _, time, _ in outputs(driver)] == [100, 200, 1001, 1100]


def test_l7_a_schedule_that_cancels_itself_fires_once() -> None:
    with TopologyTestDriver(scheduled(10, "stream", until=1)) as driver:
        for time in (10, 20, 30):
            driver.input_topic("in").send("x", key="k", timestamp=time)

        assert outputs(driver) == [("fired", 10, 10)]


def test_b44_a_punctuator_has_no_record_and_leaks_none() -> None:
    class Late(Base):
        def init(self, context: Context) -> None:
            self.context = context
            context.schedule(10, self.call)

        def call(self, now: int) -> None:
            self.context.forward(Record("p", list(self.context.source), self.context.stream_time))

        def process(self, record: Record[str, Any]) -> None: ...

    with TopologyTestDriver(topology(Late)) as driver:
        driver.input_topic("in").send("x", key="k", timestamp=50, headers={"h": b"1"})

        assert driver.output_topic("out").read_all() == [Record("p", [None, -1, -1], 50)]


def test_a_schedule_needs_an_interval_and_a_known_clock() -> None:
    for interval, clock, match in ((0, "stream", "at least 1 ms"), (5, "moon", "'stream' or 'wall'")):
        with pytest.raises((ValueError, ProcessingError), match=match), TopologyTestDriver(scheduled(interval, clock)):
            pass
