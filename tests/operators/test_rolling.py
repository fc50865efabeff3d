"""Rolling aggregations: one result for each record, over the time before it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raystreams.operators.rolling import RollingKStream

from raystreams import (
    Aggregates,
    Collect,
    Count,
    KStream,
    Max,
    Mean,
    ProcessingError,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
)

Records = list[tuple[str, int]]


def rolling(
    shape: Callable[[RollingKStream[Any, Any]], KStream[Any, Any]], within: Any = 10, **options: Any
) -> Topology:
    builder = StreamsBuilder()
    shape(builder.stream("in").group_by_key().rolling(within, **options)).to("out")
    return builder.build()


def pair(value: Any, aggregate: Any) -> tuple[Any, Any]:
    return value, aggregate


def appended(key: str, value: int, values: list[int]) -> list[int]:
    values.append(value)
    return values


def without(key: str, value: int, values: list[int]) -> list[int] | None:
    values.remove(value)
    return values or None


SHAPES: dict[str, Callable[[RollingKStream[Any, Any]], KStream[Any, Any]]] = {
    "folded anew": lambda r: r.aggregate(list, appended, pair, name="r"),
    "with a subtractor": lambda r: r.aggregate(list, appended, pair, without, name="r"),
    "ready-made": lambda r: r.apply(Collect(), pair, name="r"),
}

all_shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def send(driver: TopologyTestDriver, records: Records) -> None:
    """Records whose values are their numbers."""
    for number, (key, time) in enumerate(records):
        driver.input_topic("in").send(number, key=key, timestamp=time)


def test_a_count_tells_how_many_came_in_the_time_before() -> None:
    with TopologyTestDriver(rolling(lambda r: r.count(pair))) as driver:
        send(driver, [("a", 1), ("a", 3), ("b", 3), ("a", 10), ("a", 11), ("a", 13), ("a", 40)])

        assert [(r.key, *r.value, r.timestamp) for r in driver.output_topic("out").read_all()] == [
            ("a", 0, 1, 1), ("a", 1, 2, 3), ("b", 2, 1, 3), ("a", 3, 3, 10), ("a", 4, 3, 11), ("a", 5, 3, 13), ("a", 6, 1, 40),
        ]  # fmt: skip


@all_shapes
def test_records_of_one_time_count_in_their_order_of_arrival(shape: Any) -> None:
    with TopologyTestDriver(rolling(shape)) as driver:
        send(driver, [("a", 5), ("a", 5), ("a", 5)])

        assert driver.output_topic("out").read_values() == [(0, [0]), (1, [0, 1]), (2, [0, 1, 2])]


@all_shapes
def test_with_grace_records_are_taken_in_the_order_of_time(shape: Any) -> None:
    with TopologyTestDriver(rolling(shape, grace=5, late_records_to="late")) as driver:
        send(driver, [("a", 3), ("a", 9), ("a", 6), ("a", 14), ("a", 8)])
        assert [(*r.value, r.timestamp) for r in driver.output_topic("out").read_all()] == [
            (0, [0], 3), (2, [0, 2], 6), (1, [0, 2, 1], 9),
        ]  # fmt: skip

        assert [(r.key, r.value, r.timestamp) for r in driver.output_topic("late").read_all()] == [("a", 4, 8)]
        assert driver.dropped == {("r", "late"): 1}
        driver.end_of_input()
        assert driver.output_topic("out").read_values() == [(3, [2, 1, 3])]


def test_time_that_passes_lets_out_what_has_waited_its_grace() -> None:
    with TopologyTestDriver(rolling(lambda r: r.count(pair), grace=timedelta(milliseconds=5))) as driver:
        send(driver, [("a", 3), ("a", 9)])
        driver.advance_event_time(14)

        assert driver.output_topic("out").read_values() == [(0, 1), (1, 2)]


def test_without_grace_what_is_older_than_the_newest_is_late() -> None:
    with TopologyTestDriver(rolling(lambda r: r.count(pair, name="r"), late_records_to="late")) as driver:
        send(driver, [("a", 5), ("b", 4)])
        driver.advance_event_time(8)
        send(driver, [("a", 7), ("a", 8)])

        assert driver.output_topic("out").read_values() == [(0, 1), (1, 2)]
        assert driver.output_topic("late").read_values() == [1, 0]
        assert driver.dropped == {("r", "late"): 2}


def test_records_without_key_or_value_are_dropped() -> None:
    with TopologyTestDriver(rolling(lambda r: r.count(pair, name="r"))) as driver:
        driver.input_topic("in").send("v", key=None, timestamp=100)
        driver.input_topic("in").send(None, key="k", timestamp=100)
        driver.input_topic("in").send("v", key="k", timestamp=1)

        assert driver.output_topic("out").read_values() == [("v", 1)]
        assert driver.dropped == {("r", "null key"): 1, ("r", "null value"): 1}


def test_a_changed_key_is_routed_first_and_headers_stay() -> None:
    builder = StreamsBuilder()
    by_value = builder.stream("in").group_by(lambda key, value: value, key=str)
    by_value.rolling(10).count(pair, name="r").to("out")
    with TopologyTestDriver(builder.build(), partitions=3) as driver:
        for time, value in enumerate("xyx"):
            driver.input_topic("in").send(value, key=str(time), timestamp=time, headers={"n": value.encode()})
        found = driver.output_topic("out").read_all()

    assert [(r.key, r.value, dict(r.headers)) for r in found] == [
        ("x", ("x", 1), {"n": b"x"}), ("y", ("y", 1), {"n": b"y"}), ("x", ("x", 2), {"n": b"x"}),
    ]  # fmt: skip


def test_several_aggregations_at_once() -> None:
    aggregation: Aggregates[Any, Any] = Aggregates(dict, n=Count(), mean=Mean(float), top=Max(int))
    with TopologyTestDriver(rolling(lambda r: r.apply(aggregation, pair))) as driver:
        for value, time in [(8, 1), (2, 5), (3, 12)]:
            driver.input_topic("in").send(value, key="k", timestamp=time)

        assert driver.output_topic("out").read_values() == [
            (8, {"n": 1, "mean": 8.0, "top": 8}),
            (2, {"n": 2, "mean": 5.0, "top": 8}),
            (3, {"n": 2, "mean": 2.5, "top": 3}),
        ]


def test_a_joiner_that_changes_the_aggregate_changes_its_own() -> None:
    def spoiling(value: int, values: list[int]) -> int:
        values.clear()
        return value

    with TopologyTestDriver(rolling(lambda r: r.aggregate(list, appended, spoiling, without, name="r"))) as driver:
        send(driver, [("a", 1), ("a", 2), ("a", 12)])

        assert driver.output_topic("out").read_values() == [0, 1, 2]
        assert driver.store("r").fetch("a", 12) == [2]


def test_an_aggregator_that_forgets_to_return_is_told() -> None:
    def forgetful(key: str, value: int, values: list[int]) -> Any:
        values.append(value)

    with (
        TopologyTestDriver(rolling(lambda r: r.aggregate(list, forgetful, pair))) as driver,
        pytest.raises(ProcessingError, match="return the aggregate"),
    ):
        send(driver, [("a", 1)])


def test_a_record_whose_joiner_fails_is_in_no_frame() -> None:
    def picky(value: int, n: int) -> tuple[int, int]:
        if value == 1:
            raise ValueError("one")
        return value, n

    with TopologyTestDriver(rolling(lambda r: r.count(picky, name="r", on_error="skip"))) as driver:
        send(driver, [("a", 1), ("a", 2), ("a", 3)])

        assert driver.output_topic("out").read_values() == [(0, 1), (2, 2)]
        assert driver.dropped == {("r", "error"): 1}


@pytest.mark.parametrize(("within", "grace"), [(0, 0), (-1, 0), (5, -1)])
def test_lengths_that_make_no_sense_are_refused(within: int, grace: int) -> None:
    with pytest.raises(ValueError, match=r"positive|negative"):
        StreamsBuilder().stream("in").group_by_key().rolling(within, grace=grace)


def test_functions_are_checked_where_they_are_given() -> None:
    over = StreamsBuilder().stream("in").group_by_key().rolling(5)

    with pytest.raises(TypeError, match="joiner must be callable"):
        over.count("n")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="apply takes an aggregation"):
        over.apply(len, pair)  # type: ignore[arg-type]  # the mistake


RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=25)


def frames(records: Records, within: int, grace: int) -> list[tuple[str, int, list[int]]]:
    """(key, number, numbers in its frame) of all records that are not late, in the order of time and arrival."""
    newest, taken = -1, []
    for number, (key, time) in enumerate(records):
        newest = max(newest, time)
        if time >= newest - grace:
            taken.append((time, number, key))
    taken.sort()
    return [
        (key, number, [n for t, n, k in taken[: place + 1] if k == key and t > time - within])
        for place, (time, number, key) in enumerate(taken)
    ]


@all_shapes
@given(
    records=RECORDS, within=st.integers(1, 25), grace=st.integers(0, 20),
    disturbed=st.lists(st.sampled_from(["", "commit", "crash"]), min_size=25, max_size=25),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_each_record_gets_its_frame_whatever_crashes(
    shape: Any, records: Records, within: int, grace: int, disturbed: list[str]
) -> None:
    with TopologyTestDriver(rolling(shape, within, grace=grace), auto_commit=False) as driver:
        for number, (key, time) in enumerate(records):
            driver.input_topic("in").send(number, key=key, timestamp=time)
            if disturbed[number] == "commit":
                driver.commit()
            elif disturbed[number] == "crash":
                driver.crash()
        driver.end_of_input()
        driver.commit()
        found = [(r.key, *r.value) for r in driver.output_topic("out").read_all()]

    assert sorted(found, key=lambda row: row[1]) == sorted(frames(records, within, grace), key=lambda row: row[1])
    for key in "ab":
        assert [row for row in found if row[0] == key] == [row for row in frames(records, within, grace) if row[0] == key]


SQL = """
    SELECT a.n, count(*), sum(b.n) FROM records a JOIN records b
    ON b.key = a.key AND b.time > a.time - 10 AND (b.time, b.n) <= (a.time, a.n) GROUP BY a.n ORDER BY a.n
"""


@given(RECORDS)
@settings(max_examples=20, deadline=None)
def test_counts_and_sums_are_those_of_sql(records: Records) -> None:
    aggregation = Aggregates(lambda **parts: list(parts.values()), n=Count(), sum=Mean(lambda n: n))
    with TopologyTestDriver(rolling(lambda r: r.apply(aggregation, pair), grace=1000)) as driver:
        send(driver, records)
        driver.end_of_input()
        found = {number: (n, round(mean * n)) for number, (n, mean) in driver.output_topic("out").read_values()}
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE records (key TEXT, time INT, n INT)")
    database.executemany("INSERT INTO records VALUES (?, ?, ?)", [(k, t, n) for n, (k, t) in enumerate(records)])

    assert found == {n: (count, total) for n, count, total in database.execute(SQL)}
    database.close()


@all_shapes
def test_what_is_on_disk_goes_on_after_a_restart(shape: Any, tmp_path: Path) -> None:
    for records, wanted in [
        ([("a", 1), ("a", 5)], [(0, [0]), (1, [0, 1])]),
        ([("a", 9), ("a", 12)], [(0, [0, 1, 0]), (1, [1, 0, 1])]),
    ]:
        with TopologyTestDriver(rolling(shape), state_dir=tmp_path) as driver:
            send(driver, records)

            assert driver.output_topic("out").read_values() == wanted
