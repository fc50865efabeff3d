"""Aggregations of all kinds under crashes, repeats and delays: the outcome is that of the undisturbed run."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from raystreams import (
    Collect,
    EmitStrategy,
    KGroupedStream,
    Record,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Sum,
    Suppressed,
    TimeWindows,
    check_crashes,
)

Shape = Callable[[StreamsBuilder], Any]


def by_parity(builder: StreamsBuilder, topic: str = "in") -> KGroupedStream[str, int]:
    return builder.stream(topic).group_by(lambda key, value: str(value % 2), key=str)


def windowed(windows: Any, *, on_close: bool = False, suppressed: Suppressed | None = None) -> Shape:
    def shape(builder: StreamsBuilder) -> Any:
        grouped: Any = builder.stream("in").group_by(lambda key, value: key + "x", key=str)
        grouped = grouped.windowed_by(windows, late_records_to="late")
        if on_close:
            grouped = grouped.emit_strategy(EmitStrategy.on_window_close())
        counts = grouped.count(name="counts")
        return (counts if suppressed is None else counts.suppress(suppressed)).to_stream()

    return shape


SHAPES: dict[str, Shape] = {
    "hopping": windowed(TimeWindows(10, advance=5, grace=5)),
    "hopping, on close": windowed(TimeWindows(10, advance=5, grace=5), on_close=True),
    "sliding, on close": windowed(SlidingWindows(8, grace=5), on_close=True),
    "sessions": windowed(SessionWindows(4, grace=5)),
    "sessions, on close": windowed(SessionWindows(4, grace=5), on_close=True),
    "suppressed": windowed(TimeWindows(10, grace=5), suppressed=Suppressed.until_window_closes()),
    "suppressed in between": lambda b: (
        b.table("in").suppress(Suppressed.until_time_limit(7), name="held")
        .group_by(lambda key, value: (value % 3, value), key=int).count(name="counts").to_stream()
    ),
    "grouped table": lambda b: (
        b.table("in").group_by(lambda key, value: (value % 3, value), key=int).apply(Sum(int), name="sums").to_stream()
    ),
    "cogroup": lambda b: (
        by_parity(b).cogroup(lambda key, value, values: [*values, value])
        .cogroup(by_parity(b, "other"), lambda key, value, values: [*values, -value])
        .aggregate(list, name="both").to_stream()
    ),
    "rolling": lambda b: by_parity(b).rolling(10, grace=5, late_records_to="late").apply(Collect(), list_of, name="last"),
    "rolling, folded anew": lambda b: (
        by_parity(b).rolling(10).aggregate(list, lambda key, value, values: [*values, value], list_of, name="last")
    ),
}  # fmt: skip


def list_of(value: int, values: list[int]) -> list[Any]:
    return [value, values]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("partitions", [1, 3])
def test_the_outcome_is_that_of_the_undisturbed_run(name: str, partitions: int) -> None:
    builder = StreamsBuilder()
    SHAPES[name](builder).to("out")
    topology = builder.build()
    chosen = random.Random(name)
    inputs = [
        (topic, Record(chosen.choice("abcd"), chosen.randrange(20), max(0, 2 * i + chosen.randint(-6, 3))))
        for i in range(40)
        for topic in topics_of(name)
    ]

    check_crashes(topology, inputs, partitions=partitions, seeds=8)


def topics_of(name: str) -> list[str]:
    return ["in", "other"] if name == "cogroup" else ["in"]
