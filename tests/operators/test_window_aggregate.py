"""Aggregations by time windows: which windows there are, what is kept of them, and for how long (spec-runtime 3.2 to 3.6)."""

from __future__ import annotations

from typing import Any

import pytest

from raystreams import (
    EmitStrategy,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topic,
    TopologyTestDriver,
    UnlimitedWindows,
    Windowed,
)
from tests.operators.aggregation_texts import drops, key_text, plus, read, send, sent, zero
from tests.operators.runtime_vectors import ByWindow, grouped, sessions, topology

EPOCH = 1_700_000_000_000 // 560 * 560
"""A time of our days that all the sizes below divide."""


@pytest.mark.parametrize(
    ("windows", "time", "bounds"),
    [
        (TimeWindows(12, advance=5), 21, [(10, 22), (15, 27), (20, 32)]),  # G1
        (TimeWindows(6, advance=5), 7, [(5, 11)]),  # G2
        (TimeWindows(12), 21, [(12, 24)]),  # G3
        (TimeWindows(10, advance=5), 4, [(0, 10)]),  # B34, and all below
        (TimeWindows(10, advance=5), 9, [(0, 10), (5, 15)]),
        (TimeWindows(10, advance=5), 10, [(5, 15), (10, 20)]),
        (TimeWindows(10, advance=5), 12, [(5, 15), (10, 20)]),
        (TimeWindows(16, advance=7), 15, [(0, 16), (7, 23), (14, 30)]),
        (TimeWindows(16, advance=7), 16, [(7, 23), (14, 30)]),
        (TimeWindows(16, advance=7), 0, [(0, 16)]),
        (TimeWindows(10, advance=5), EPOCH + 9, [(EPOCH, EPOCH + 10), (EPOCH + 5, EPOCH + 15)]),
        (TimeWindows(16, advance=7), EPOCH + 16, [(EPOCH + 7, EPOCH + 23), (EPOCH + 14, EPOCH + 30)]),
    ],
)
def test_a_record_is_in_the_windows_that_hold_its_time(windows: TimeWindows, time: int, bounds: list[tuple[int, int]]) -> None:
    with TopologyTestDriver(topology(ByWindow(windows, "count"))) as driver:
        send(driver, f"k@{time}")

        keys = [record.key for record in driver.output_topic("out")]
        assert [(key.start, key.end) for key in keys] == bounds


def test_g4_unlimited_windows_have_a_start_and_no_end() -> None:
    shape = topology(lambda b: grouped(b).windowed_by(UnlimitedWindows(10)).count(materialized=Materialized.window("store")))
    with TopologyTestDriver(shape) as driver:
        send(driver, "k@10 k@9 k@11 k@99999")
        records = driver.output_topic("out").read_all()

        assert [(record.key.start, record.value, record.timestamp) for record in records] == [
            (10, 1, 10),
            (10, 2, 11),
            (10, 3, 99999),
        ]
        assert {record.key.end for record in records} == {2**63 - 1}
        assert drops(driver) == 0
        assert driver.store("store").fetch("k", 10) == 3


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        *((TimeWindows, {"size": size}) for size in (0, -1)),
        *((TimeWindows, {"size": 10, "advance": advance}) for advance in (0, -1, 11)),
        (TimeWindows, {"size": 10, "grace": -1}),
        (SessionWindows, {"inactivity_gap": -1}),
        (SessionWindows, {"inactivity_gap": 10, "grace": -1}),
        *((SlidingWindows, {"time_difference": difference}) for difference in (0, -1)),
        (SlidingWindows, {"time_difference": 10, "grace": -1}),
        (UnlimitedWindows, {"start": -1}),
    ],
)
def test_g5_windows_that_can_not_be_are_refused(make: Any, settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        make(**settings)


@pytest.mark.parametrize(
    ("windows", "kind", "needed"),
    [
        (TimeWindows(10, grace=5), Materialized.window, 15),
        (SlidingWindows(10, grace=5), Materialized.window, 25),
        (SessionWindows(10, grace=5), Materialized.session, 15),
        (UnlimitedWindows(), Materialized.window, 2**63 - 1),
    ],
)
def test_g6_and_b59_a_retention_must_cover_a_window_and_its_grace(windows: Any, kind: Any, needed: int) -> None:
    windowed: Any = grouped(StreamsBuilder()).windowed_by(windows)

    with pytest.raises(ValueError, match=f"at least {needed} ms"):
        windowed.count(materialized=kind("short", retention=needed - 1))
    windowed.count(materialized=kind("enough", retention=needed))


def test_b59_a_window_takes_records_as_long_as_its_grace_says_however_long_that_is() -> None:
    day, hour = 86_400_000, 3_600_000
    with TopologyTestDriver(topology(ByWindow(TimeWindows(2 * day, grace=3 * day), "count"))) as driver:
        send(driver, f"k@0 x@{3 * day // 2} k@{hour}")
        read(driver)

        assert sent(driver, f"x@{49 * day // 10} k@{2 * hour}").split()[-1] == f"k[0,{2 * day})=3@{2 * hour}"
        assert sent(driver, f"x@{5 * day} k@{3 * hour}").split()[1:] == []
        assert drops(driver) == 1


def test_windows_never_close_are_not_for_emitting_on_close() -> None:
    windowed = grouped(StreamsBuilder()).windowed_by(UnlimitedWindows())

    with pytest.raises(ValueError, match="never close"):
        windowed.emit_strategy(EmitStrategy.on_window_close())


def sessions_are_in(driver: TopologyTestDriver) -> bool:
    return driver.topology.stores["store"].kind == "session"


def kept(driver: TopologyTestDriver, *, closed: bool = False) -> str:
    """What the store holds."""
    store = driver.store("store")
    with store.fetch_range(None, None) if sessions_are_in(driver) else store.all() as rows:
        return " ".join(f"{key_text(key, closed=closed)}={value}" for key, value in rows)


C14 = "1:1@10 1:2@15 1:3@500 2:10@550 2:20@500 2:30@1000"


def test_h3_a_store_shows_no_window_past_its_retention_and_on_close_one_millisecond_more() -> None:
    by_500 = ByWindow(TimeWindows(500), "count")
    with TopologyTestDriver(topology(by_500)) as driver:
        send(driver, C14)
        assert kept(driver) == "2[1000,1500)=1"
    with TopologyTestDriver(topology(by_500.closing())) as driver:
        send(driver, C14)
        assert kept(driver) == "1[500,1000)=1 2[500,1000)=2 2[1000,1500)=1"


SLIDING_INPUT = "1:1@100 1:2@150 1:3@500 2:10@200 2:20@150"


def test_h1_and_h2_what_a_store_of_sliding_windows_holds() -> None:
    windows = SlidingWindows(100, grace=1000)
    with TopologyTestDriver(topology(ByWindow(windows, "count"))) as driver:
        send(driver, SLIDING_INPUT)
        assert sorted(kept(driver, closed=True).split()) == sorted(
            ["1[0,100]=1", "1[50,150]=2", "1[101,201]=1", "1[400,500]=1", "2[50,150]=1", "2[100,200]=2", "2[151,251]=1"]
        )
    with TopologyTestDriver(topology(ByWindow(windows, "reduce"))) as driver:
        send(driver, SLIDING_INPUT)
        assert sorted(kept(driver, closed=True).split()) == sorted(
            ["1[0,100]=1", "1[50,150]=1+2", "1[101,201]=2", "1[400,500]=3", "2[50,150]=20", "2[100,200]=10+20", "2[151,251]=10"]
        )


def test_b61_what_expires_is_by_time_and_of_no_other_key() -> None:
    with TopologyTestDriver(topology(ByWindow(TimeWindows(1000), "count", retention=100_000))) as driver:
        send(driver, "key@0 key2@0 key@100001")

        assert kept(driver) == "key[100000,101000)=1"
    with TopologyTestDriver(topology(ByWindow(TimeWindows(1000), "count", retention=100_000))) as driver:
        send(driver, "key@0 key2@0 key@10000")

        assert kept(driver) == "key[0,1000)=1 key[10000,11000)=1 key2[0,1000)=1"


def test_b44_a_results_time_is_the_largest_of_what_contributed() -> None:
    with TopologyTestDriver(topology(ByWindow(TimeWindows(100), "count"))) as driver:
        assert sent(driver, "k@20 k@10") == "k[0,100)=1@20 k[0,100)=2@20"
    with TopologyTestDriver(topology(sessions(10))) as driver:
        assert sent(driver, "k@5 k@0", closed=True) == "k[5,5]=1@5 k[5,5]=null@5 k[0,5]=2@5"


@pytest.mark.parametrize("windows", [TimeWindows(500), SlidingWindows(500), SessionWindows(500)])
def test_b64_a_windowed_key_keeps_its_end_through_a_topic_and_a_store(windows: Any) -> None:
    out = Topic("out", key=Windowed[str], value=str)
    builder = StreamsBuilder()
    windowed: Any = builder.stream(Topic("in", key=str, value=str)).group_by_key().windowed_by(windows)
    mergers = [lambda key, a, b: a + b] if isinstance(windows, SessionWindows) else []
    windowed.aggregate(zero, plus, *mergers, value=str).to_stream().to(out)
    builder.table(out, materialized=Materialized.key_value("read")).to_stream().to("again")

    with TopologyTestDriver(builder.build(), auto_commit=False) as driver:
        send(driver, "k:a@700 k:b@900")
        driver.commit()
        driver.crash()
        again = driver.output_topic("again").read_all()
        ends = {(record.key.start, record.key.end) for record in again}
        with driver.store("read").all() as rows:
            assert {(key.start, key.end) for key, value in rows} <= ends

    assert (700, 900) in ends if isinstance(windows, SessionWindows) else all(end - start == 500 for start, end in ends)


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("windows", [TimeWindows(10, advance=5), SlidingWindows(10), SessionWindows(10)])
def test_partitions_change_no_table(windows: Any, partitions: int) -> None:
    kind = Materialized.session if isinstance(windows, SessionWindows) else Materialized.window

    def shape(builder: StreamsBuilder) -> Any:
        by_value: Any = builder.stream("in").group_by(lambda key, value: value, key=str).windowed_by(windows)
        return by_value.count(materialized=kind("store", retention=10_000))

    text = " ".join(f"{key}:{value}@{time}" for time, key in enumerate("abcdefgh" * 3) for value in "xyz")
    with TopologyTestDriver(topology(shape)) as driver:
        send(driver, text)
        expected, outputs = kept(driver), driver.output_topic("out").read_table()
    with TopologyTestDriver(topology(shape), partitions=partitions) as driver:
        send(driver, text)

        assert sorted(kept(driver).split()) == sorted(expected.split())
        assert driver.output_topic("out").read_table() == outputs


def test_the_first_change_of_a_window_carries_the_initial_value_as_the_old_one() -> None:
    def shape(builder: StreamsBuilder) -> Any:
        table = grouped(builder).windowed_by(TimeWindows(10)).aggregate(lambda: 100, lambda k, v, a: a + 1)
        return table.group_by(lambda key, value: ("all", value)).reduce(lambda a, b: a + b, lambda a, b: a - b)

    with TopologyTestDriver(topology(shape)) as driver:
        assert sent(driver, "a@1 a@2 b@3") == "all=101@1 all=102@2 all=103@3"


def test_a_window_whose_aggregate_is_none_is_gone() -> None:
    def shape(builder: StreamsBuilder) -> Any:
        windowed = grouped(builder).windowed_by(TimeWindows(10))
        deleting = lambda key, value, aggregate: None if value == "x" else plus(key, value, aggregate)  # noqa: E731  # short
        return windowed.aggregate(zero, deleting, materialized=Materialized.window("store"))

    with TopologyTestDriver(topology(shape)) as driver:
        assert sent(driver, "k:a@5 k:x@3 k:b@2") == "k[0,10)=0+a@5 k[0,10)=null@5 k[0,10)=0+b@2"
        assert kept(driver) == "k[0,10)=0+b"
