"""When windows and buffers close: by a record, by time that passes without one, and at the end of input (spec-runtime 3.8).

All three give the same; and nothing further down is late for what closes (field report B102).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import (
    EmitStrategy,
    KTable,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
)
from tests.operators.aggregation_texts import drops, read, send, sent
from tests.operators.runtime_vectors import AnyWindows, ByWindow, Shape, grouped, topology

CLOSING: dict[str, Shape] = {
    "tumbling": ByWindow(TimeWindows(10, grace=5), "count").closing(),
    "hopping": ByWindow(TimeWindows(10, advance=4, grace=3), "count").closing(),
    "sliding": ByWindow(SlidingWindows(10, grace=5), "count").closing(),
    "sessions": ByWindow(SessionWindows(5, grace=5), "count").closing(),
    "suppressed": lambda b: ByWindow(TimeWindows(10, grace=5), "count")(b).suppress(Suppressed.until_window_closes()),
    "suppressed sessions": lambda b: ByWindow(SessionWindows(5), "count")(b).suppress(Suppressed.until_window_closes()),
    "held": lambda b: b.table("in").suppress(Suppressed.until_time_limit(7)),
}

RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=25)


@pytest.mark.parametrize("shape", CLOSING.values(), ids=CLOSING)
@given(records=RECORDS, time=st.integers(0, 80))
@settings(max_examples=15, deadline=None)
def test_time_that_passes_closes_what_a_record_of_that_time_would(
    shape: Shape, records: list[tuple[str, int]], time: int
) -> None:
    outputs = []
    for by_record in (True, False):
        with TopologyTestDriver(topology(shape)) as driver:
            send(driver, " ".join(f"{key}@{t}" for key, t in records))
            read(driver)
            if by_record:
                driver.input_topic("in").send("tick", key="z", timestamp=time)
            else:
                driver.advance_event_time(time)
            outputs.append([word for word in read(driver).split() if not word.startswith("z")])

    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("shape", CLOSING.values(), ids=CLOSING)
@given(records=RECORDS)
@settings(max_examples=15, deadline=None)
def test_the_end_of_input_closes_what_a_record_far_in_the_future_would(shape: Shape, records: list[tuple[str, int]]) -> None:
    outputs = []
    for by_record in (True, False):
        with TopologyTestDriver(topology(shape)) as driver:
            send(driver, " ".join(f"{key}@{t}" for key, t in records))
            if by_record:
                driver.input_topic("in").send("tick", key="z", timestamp=10_000)
            else:
                driver.end_of_input()
            outputs.append([word for word in read(driver).split() if not word.startswith("z")])

    assert outputs[0] == outputs[1]


def test_time_never_goes_back() -> None:
    with TopologyTestDriver(topology(CLOSING["tumbling"])) as driver:
        driver.advance_event_time(100)
        driver.advance_event_time(5)

        assert sent(driver, "a@80 a@90 a@100 a@120") == "a[90,100)=1@90 a[100,110)=1@100"
        assert driver.dropped == {("KSTREAM-AGGREGATE-0000000001", "late"): 1}


def test_what_time_has_closed_is_not_given_out_again() -> None:
    with TopologyTestDriver(topology(CLOSING["tumbling"])) as driver:
        send(driver, "a@1")
        driver.advance_event_time(15)
        driver.crash()
        driver.advance_event_time(16)
        driver.end_of_input()

        assert read(driver) == "a[0,10)=1@1"


def two_steps(first: AnyWindows, second: AnyWindows, *, suppressed: bool = False) -> Topology:
    """Sums of counts: windows of what windows gave out."""
    builder = StreamsBuilder()
    windowed: Any = grouped(builder).windowed_by(first)
    if not suppressed:
        windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
    counts: KTable[Windowed[str], int] = windowed.count()
    if suppressed:
        counts = counts.suppress(Suppressed.until_window_closes())
    stream = counts.to_stream()
    again: Any = stream.group_by(lambda key, _: key.key, key=str).windowed_by(second)
    (again.emit_strategy(EmitStrategy.on_window_close()).reduce(lambda a, b: a + b, name="sum").to_stream().to("out"))
    return builder.build()


@pytest.mark.parametrize("suppressed", [False, True])
def test_b102_the_next_step_counts_what_a_window_gives_out_late_in_the_tasks_time(suppressed: bool) -> None:
    with TopologyTestDriver(two_steps(TimeWindows(10), TimeWindows(100), suppressed=suppressed)) as driver:
        send(driver, "k:1@95 k:1@112")
        assert read(driver) == ""
        send(driver, "k:1@215 k:1@230")

        assert read(driver) == "k[0,100)=1@95 k[100,200)=1@112"
        assert drops(driver) == 0


@pytest.mark.parametrize("suppressed", [False, True])
@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_b102_time_that_passes_waits_for_what_the_step_before_holds_back(partitions: int, suppressed: bool) -> None:
    with TopologyTestDriver(
        two_steps(TimeWindows(10, grace=10), TimeWindows(100), suppressed=suppressed), partitions=partitions
    ) as driver:
        send(driver, "k:1@95")
        driver.advance_event_time(103)  # [90,100) is open, so [0,100) of the second step must be
        driver.advance_event_time(112)
        assert read(driver) == ""
        driver.advance_event_time(1000)

        assert read(driver) == "k[0,100)=1@95"
        assert drops(driver) == 0


@given(
    records=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 300)), max_size=20).map(
        lambda records: sorted(records, key=lambda record: record[1])
    ),
    first=st.sampled_from([TimeWindows(10), TimeWindows(30, advance=10, grace=10), SessionWindows(20), SlidingWindows(15)]),
    second=st.sampled_from([TimeWindows(20), TimeWindows(100, grace=10), SessionWindows(30)]),
    suppressed=st.booleans(),
    partitions=st.sampled_from([1, 3]),
)
@settings(max_examples=25, deadline=None)
def test_time_that_passes_in_between_makes_nothing_late(
    records: list[tuple[str, int]], first: AnyWindows, second: AnyWindows, suppressed: bool, partitions: int
) -> None:
    results = []
    for passes in (False, True):
        with TopologyTestDriver(two_steps(first, second, suppressed=suppressed), partitions=partitions) as driver:
            for key, time in records:
                driver.input_topic("in").send("1", key=key, timestamp=time)
                if passes:
                    driver.advance_event_time(time)
            driver.end_of_input()
            results.append((sorted(read(driver).split()), drops(driver)))

    assert results[0] == results[1]


def test_buffers_below_one_another_close_in_their_order() -> None:
    builder = StreamsBuilder()
    counts = grouped(builder).windowed_by(TimeWindows(10)).count(name="counts")
    final = counts.suppress(Suppressed.until_window_closes())
    final.to_stream(name="final").to("out")
    final.suppress(Suppressed.until_time_limit(100)).to_stream().to("out")

    with TopologyTestDriver(builder.build()) as driver:
        send(driver, "b@1 a@2 a@11")
        assert read(driver) == "a[0,10)=1@2 b[0,10)=1@1"
        driver.end_of_input()

        assert read(driver) == "a[10,20)=1@11 b[0,10)=1@1 a[0,10)=1@2 a[10,20)=1@11"


def test_b36_a_session_closes_after_gap_and_grace_and_no_earlier() -> None:
    with TopologyTestDriver(topology(ByWindow(SessionWindows(10), "count", retention=100))) as driver:
        assert sent(driver, "k@0 x@10 k@0 x@11 k@0", closed=True) == (
            "k[0,0]=1@0 x[10,10]=1@10 k[0,0]=2@0 x[10,10]=null@10 x[10,11]=2@11"
        )
        assert drops(driver) == 1


def test_a_session_at_the_very_close_time_is_kept_until_it_is_over() -> None:
    with TopologyTestDriver(topology(ByWindow(SessionWindows(10), "count").closing())) as driver:
        assert sent(driver, "k@0 x@10", closed=True) == ""
        assert sent(driver, "k@0 x@11 x@30", closed=True) == "k[0,0]=2@0 x[10,11]=2@11"


def test_emitting_on_close_needs_windows_that_close() -> None:
    windowed = grouped(StreamsBuilder()).windowed_by(TimeWindows(10))

    with pytest.raises(TypeError, match="emit_strategy takes"):
        windowed.emit_strategy("close")  # type: ignore[arg-type]  # the mistake


def test_rows_stay_in_the_store_when_they_are_given_out() -> None:
    with TopologyTestDriver(topology(ByWindow(TimeWindows(10), "count", retention=100).closing())) as driver:
        assert sent(driver, "k@1 k@12") == "k[0,10)=1@1"

        with driver.store("store").all() as rows:
            assert [value for _, value in rows] == [1, 1]


def test_what_comes_out_carries_the_headers_of_the_record_that_closed_it() -> None:
    with TopologyTestDriver(topology(CLOSING["tumbling"])) as driver:
        driver.input_topic("in").send("v", key="k", timestamp=1, headers={"h": b"first"})
        driver.input_topic("in").send("v", key="k", timestamp=15, headers={"h": b"second"})

        assert [dict(record.headers) for record in driver.output_topic("out")] == [{"h": b"second"}]


def test_h4_after_a_restart_only_new_windows_come_out() -> None:
    shape = ByWindow(TimeWindows(10, advance=5)).closing()
    with TopologyTestDriver(topology(shape)) as driver:
        first = sent(driver, "A:1@0 A:1@5 B:2@11 B:2@15 C:3@25")
        driver.crash()

        assert first == (
            "A[0,10)=0+1+1@5 A[5,15)=0+1@5 B[5,15)=0+2@11 B[10,20)=0+2+2@15 B[15,25)=0+2@15"
        )  # Kafka Streams loses B[10,20)
        assert sent(driver, "C:3@35") == "C[20,30)=0+3@25 C[25,35)=0+3@25"
