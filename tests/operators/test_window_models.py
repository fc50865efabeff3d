"""Windows equal their definition, as sets of records, whatever order records come in, and whatever crashes.

    time      [n*advance, n*advance + size)
    sliding   [t-d, t] of each record at t, [0, d] where t < d, and [t+1, t+1+d] where there is another record in it
    session   the records of a key, split where two that follow one another are more than the gap apart
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import (
    EmitStrategy,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
)

GRACE = 10_000

Records = list[tuple[str, int]]
Rows = dict[Windowed[str], list[int]]
"""The numbers of the records that each window holds."""


def by_time(size: int, advance: int) -> Callable[[Records], Rows]:
    def rows(records: Records) -> Rows:
        starts = range(0, 200, advance)
        return windows(records, ((key, start, start + size, start + size - 1) for key, _ in records for start in starts))

    return rows


def by_difference(d: int) -> Callable[[Records], Rows]:
    def rows(records: Records) -> Rows:
        left = ((key, max(0, t - d), max(d, t), max(d, t)) for key, t in records)
        right = ((key, t + 1, t + 1 + d, t + 1 + d) for key, t in records)
        return windows(records, [*left, *right])

    return rows


def by_gap(gap: int) -> Callable[[Records], Rows]:
    def rows(records: Records) -> Rows:
        found = []
        for key in "ab":
            times = sorted(t for k, t in records if k == key)
            starts = [t for i, t in enumerate(times) if i == 0 or t - times[i - 1] > gap]
            ends = [t for i, t in enumerate(times) if i == len(times) - 1 or times[i + 1] - t > gap]
            found += [(key, start, end, end) for start, end in zip(starts, ends, strict=True)]
        return windows(records, found)

    return rows


def windows(records: Records, bounds: Iterable[tuple[str, int, int, int]]) -> Rows:
    """The windows (key, start, end, last time in it) that hold a record."""
    found = {
        Windowed(key, start, end): [i for i, (k, t) in enumerate(records) if k == key and start <= t <= last]
        for key, start, end, last in bounds
    }
    return {window: numbers for window, numbers in found.items() if numbers}


KINDS: dict[str, tuple[Any, Callable[[Records], Rows]]] = {
    "tumbling": (TimeWindows(10, grace=GRACE), by_time(10, 10)),
    "hopping": (TimeWindows(12, advance=5, grace=GRACE), by_time(12, 5)),
    "sliding": (SlidingWindows(10, grace=GRACE), by_difference(10)),
    "sliding, all early": (SlidingWindows(100, grace=GRACE), by_difference(100)),
    "sessions": (SessionWindows(5, grace=GRACE), by_gap(5)),
    "sessions of one time": (SessionWindows(0, grace=GRACE), by_gap(0)),
}

RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=20)

all_kinds = pytest.mark.parametrize(("kind", "model"), KINDS.values(), ids=KINDS)


def topology(kind: Any, *, on_close: bool = False) -> Topology:
    """Lists of the numbers of records."""
    builder = StreamsBuilder()
    windowed: Any = builder.stream("in").group_by_key().windowed_by(kind)
    if on_close:
        windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
    merger = [lambda key, a, b: sorted(a + b)] if isinstance(kind, SessionWindows) else []
    stored: Any = Materialized.session if isinstance(kind, SessionWindows) else Materialized.window
    table = windowed.aggregate(list, with_number, *merger, value=list, materialized=stored("rows", retention=2 * GRACE))
    table.to_stream().to("out")
    return builder.build()


def bounds(kind: Any) -> tuple[int, ...]:
    """What more `fetch_range` wants to know."""
    return () if isinstance(kind, SessionWindows) else (0, GRACE)


def with_number(key: str, number: int, numbers: list[int]) -> list[int]:
    numbers.append(number)
    return sorted(numbers)


@all_kinds
@given(records=RECORDS)
@settings(max_examples=25, deadline=None)
def test_what_came_out_last_is_the_definition(kind: Any, model: Callable[[Records], Rows], records: Records) -> None:
    with TopologyTestDriver(topology(kind)) as driver:
        for number, (key, time) in enumerate(records):
            driver.input_topic("in").send(number, key=key, timestamp=time)
        last = {window: numbers for window, numbers in driver.output_topic("out").read_table().items() if numbers}
        with driver.store("rows").fetch_range("a", "b", *bounds(kind)) as rows:
            stored = dict(rows)

    assert last == model(records)
    assert stored == model(records)


@all_kinds
@given(records=RECORDS, disturbed=st.lists(st.sampled_from(["", "commit", "crash"]), min_size=20, max_size=20))
@settings(max_examples=15, deadline=None)
def test_on_close_each_window_comes_out_once_in_the_order_of_time(
    kind: Any, model: Callable[[Records], Rows], records: Records, disturbed: list[str]
) -> None:
    with TopologyTestDriver(topology(kind, on_close=True), auto_commit=False) as driver:
        for number, (key, time) in enumerate(records):
            driver.input_topic("in").send(number, key=key, timestamp=time)
            if disturbed[number] == "commit":
                driver.commit()
            elif disturbed[number] == "crash":
                driver.crash()
        driver.end_of_input()
        driver.commit()
        found = [(r.key, r.value) for r in driver.output_topic("out").read_all()]

    assert dict(found) == model(records)
    assert len(found) == len(model(records))
    assert [window.end for window, _ in found] == sorted(window.end for window, _ in found)


@all_kinds
@given(records=RECORDS, grace=st.integers(0, 20))
@settings(max_examples=25, deadline=None)
def test_on_close_gives_what_on_update_gave_last(
    kind: Any, model: Callable[[Records], Rows], records: Records, grace: int
) -> None:
    small = with_grace(kind, grace)
    results = []
    for on_close in (False, True):
        with TopologyTestDriver(topology(small, on_close=on_close)) as driver:
            for number, (key, time) in enumerate(records):
                driver.input_topic("in").send(number, key=key, timestamp=time)
            driver.end_of_input()
            found = driver.output_topic("out").read_all()
            results.append(({r.key: (r.value, r.timestamp) for r in found if r.value is not None}, driver.dropped))
            if on_close and not isinstance(kind, SessionWindows):
                assert len(found) == len(results[-1][0])

    (updates, update_drops), (finals, final_drops) = results
    if isinstance(kind, SessionWindows):
        assert {session: updates.get(session) for session in finals} == finals
    else:
        assert finals == updates
    assert final_drops == update_drops


def with_grace(kind: Any, grace: int) -> Any:
    if isinstance(kind, SessionWindows):
        return SessionWindows(kind.inactivity_gap, grace=grace)
    if isinstance(kind, SlidingWindows):
        return SlidingWindows(kind.time_difference, grace=grace)
    return TimeWindows(kind.size, advance=kind.advance, grace=grace)
