"""`suppress`: updates that are held back (KIP-328, spec-runtime 4.1, vectors J; field reports B66, B67)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raystreams import (
    BufferFullError,
    KTable,
    Materialized,
    RaystreamsError,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    TopologyTestDriver,
)
from tests.operators.aggregation_texts import drops, read, send, sent
from tests.operators.runtime_vectors import ByWindow, by_value, grouped, sessions, topology

FINAL = Suppressed.until_window_closes()


def held(suppressed: Suppressed, shape: Callable[[KTable[Any, Any]], KTable[Any, Any]] = lambda table: table) -> Topology:
    return topology(lambda b: shape(b.table("in")).suppress(suppressed, name="held"))


def counted_by_value(suppressed: Suppressed) -> Topology:
    """The upstream of the vectors S: rows (value, count)."""
    return held(suppressed, lambda table: table.group_by(by_value).count())


S_INPUT = "k1:v1@0 k1:v2@1 k2:v1@2"


def test_s1_to_s3_over_their_whole_topology() -> None:
    with TopologyTestDriver(counted_by_value(Suppressed.until_time_limit(0))) as driver:
        assert sent(driver, f"{S_INPUT} x:x@3 x:y@4") == "v1=1@0 v1=0@1 v2=1@1 v1=1@2 x=1@3 x=0@4 y=1@4"
    with TopologyTestDriver(counted_by_value(Suppressed.until_time_limit(2))) as driver:
        assert sent(driver, f"{S_INPUT} tick:tick@3 tick:tock@4") == "v1=1@2 v2=1@1"
    with TopologyTestDriver(counted_by_value(Suppressed.until_time_limit(10**9, max_records=1))) as driver:
        assert sent(driver, f"{S_INPUT} x:x@3") == "v1=0@1 v2=1@1 v1=1@2"


def test_j1_without_a_wait_all_leaves_at_once() -> None:
    with TopologyTestDriver(held(Suppressed.until_time_limit(0))) as driver:
        assert sent(driver, "hey:1@0") == "hey=1@0"


def test_j2_the_wait_is_over_when_time_reaches_it() -> None:
    with TopologyTestDriver(held(Suppressed.until_time_limit(1))) as driver:
        assert sent(driver, "hey:1@0") == ""
        assert sent(driver, "tick:1@1") == "hey=1@0"


def final(size: int, grace: int) -> Topology:
    return topology(lambda b: ByWindow(TimeWindows(size, grace=grace), "count")(b).suppress(FINAL, name="final"))


def test_j3_a_final_result_waits_for_the_grace() -> None:
    with TopologyTestDriver(final(100, 1)) as driver:
        assert sent(driver, "k@99 x@100") == ""
        assert sent(driver, "x@101") == "k[0,100)=1@99"


def test_j4_without_grace_for_the_windows_end() -> None:
    with TopologyTestDriver(final(100, 0)) as driver:
        assert sent(driver, "k@99") == ""
        assert sent(driver, "x@100") == "k[0,100)=1@99"


def test_j5_final_results_are_no_deletions_and_the_other_kind_passes_them_on() -> None:
    deleting: Callable[..., Any] = lambda key, value, aggregate: None if value == "x" else aggregate + 1  # noqa: E731  # short

    def shape(suppressed: Suppressed) -> Topology:
        return topology(lambda b: grouped(b).windowed_by(TimeWindows(10)).aggregate(lambda: 0, deleting).suppress(suppressed))

    with TopologyTestDriver(shape(FINAL)) as driver:
        assert sent(driver, "k:a@1 k:x@2 n:a@3 z:a@20") == "n[0,10)=1@3"
    with TopologyTestDriver(shape(Suppressed.until_time_limit(0))) as driver:
        assert sent(driver, "k:a@1 k:x@2") == "k[0,10)=1@1 k[0,10)=null@2"


def test_j6_a_full_buffer_gives_its_oldest_out_or_fails() -> None:
    with TopologyTestDriver(held(Suppressed.until_time_limit(100, max_records=1))) as driver:
        assert sent(driver, "b:1@5 a:1@6 c:1@1") == "b=1@5 c=1@1"  # the oldest by time, also if it came last
    with TopologyTestDriver(held(Suppressed.until_time_limit(100, max_bytes=60))) as driver:
        assert sent(driver, "a:1@1") == ""
        assert sent(driver, f"b:{'x' * 40}@2").split()[0] == "a=1@1"
    strict = Suppressed.until_time_limit(100, max_records=1, when_full="fail")
    with TopologyTestDriver(held(strict)) as driver:
        send(driver, "a:1@1 a:2@2")
        with pytest.raises(BufferFullError, match=r"'held' exceeded its max capacity: 2 records") as caught:
            send(driver, "b:1@2")

        assert isinstance(caught.value, RaystreamsError)


def test_final_results_that_do_not_fit_fail_rather_than_come_early() -> None:
    shape = topology(
        lambda b: ByWindow(TimeWindows(10), "count")(b).suppress(Suppressed.until_window_closes(max_records=1), name="final")
    )
    with TopologyTestDriver(shape) as driver, pytest.raises(BufferFullError, match="final"):
        send(driver, "a@1 b@2")


def test_j7_bytes_limit_as_records_do() -> None:
    def shape(limit: int) -> Topology:
        return counted_by_value(Suppressed.until_time_limit(10**9, max_bytes=limit))

    def outputs(limit: int) -> str:
        with TopologyTestDriver(shape(limit)) as driver:
            return sent(driver, f"{S_INPUT} x:x@3")

    one_entry = next(limit for limit in range(200) if outputs(limit) == "v1=0@1 v2=1@1 v1=1@2")
    assert one_entry > 2
    assert outputs(0) == "v1=1@0 v1=0@1 v2=1@1 v1=1@2 x=1@3"
    assert outputs(10**6) == ""


def test_j8_before_a_group_by() -> None:
    shape = topology(lambda b: b.table("in").suppress(Suppressed.until_time_limit(10)).group_by(lambda k, v: (k, v)).count())
    with TopologyTestDriver(shape) as driver:
        assert sent(driver, "A:a@0") == ""
        assert sent(driver, "tick:tick@10") == "A=1@0"


@pytest.mark.parametrize("mirrored", [False, True])
def test_j9_a_join_sees_the_row_as_it_was_before_what_is_held_back(mirrored: bool) -> None:
    builder = StreamsBuilder()
    held_side = builder.table("right").suppress(Suppressed.until_time_limit(10))
    free = builder.table("left")
    if mirrored:
        joined = held_side.outer_join(free, lambda right, left: f"({left},{right})")
    else:
        joined = free.outer_join(held_side, lambda left, right: f"({left},{right})")
    joined.to_stream().to("out")

    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, "B:1@0 A:1@0", "right") == ""
        assert sent(driver, "tick:tick@10", "right") == "A=(None,1)@0 B=(None,1)@0"
        assert sent(driver, "A:2@11", "right") == ""
        assert sent(driver, "A:a@12", "left") == "A=(a,1)@12"
        assert sent(driver, "B:b@12", "left") == "B=(b,1)@12"
        assert sent(driver, "A:b@13", "left") == "A=(b,1)@13"
        assert sent(driver, "tick:tick1@21", "right") == "tick=(None,tick1)@21 A=(b,2)@13"


def test_j11_what_leaves_carries_what_was_there_before_the_first_update_that_was_held() -> None:
    """Kafka Streams sends what the newest update replaced, and what is below subtracts what it never added."""

    def sums(table: KTable[Any, Any]) -> KTable[Any, Any]:
        grouped_all = table.suppress(Suppressed.until_time_limit(10)).group_by(lambda k, v: ("all", int(v)))
        return grouped_all.reduce(lambda a, b: a + b, lambda a, b: a - b)

    with TopologyTestDriver(topology(lambda b: sums(b.table("in", materialized=Materialized.key_value("rows"))))) as driver:
        assert sent(driver, "k:1@0 tick:0@10") == "all=1@0"
        send(driver, "k:5@11 k:7@12 k:9@13")

        # tick left at 20, then k: 1 is what was there, and 9 what is.
        assert sent(driver, "tick:0@21").split()[-1] == "all=9@21"


def test_j12_final_results_are_of_windows_and_wait_for_the_longest_grace() -> None:
    with pytest.raises(TopologyError, match="needs a windowed aggregation"):
        held(FINAL, lambda table: table.group_by(by_value).count())

    with TopologyTestDriver(topology(lambda b: sessions(5, grace=3)(b).suppress(FINAL))) as driver:
        assert sent(driver, "k@0 x@7", closed=True) == ""
        assert sent(driver, "x@8", closed=True) == "k[0,0]=1@0"

    def joined(builder: StreamsBuilder) -> KTable[Any, Any]:
        short = grouped(builder).windowed_by(TimeWindows(10, grace=1)).count()
        long = grouped(builder, "other").windowed_by(TimeWindows(10, grace=20)).count()
        return short.outer_join(long, lambda a, b: f"{a},{b}").map_values(str).filter(lambda k, v: True).suppress(FINAL)

    with TopologyTestDriver(topology(joined)) as driver:
        assert sent(driver, "k@5 x@29") == ""
        assert sent(driver, "y@30") == "k[0,10)=1,None@5"


def test_j13_versions_can_not_be_held_back() -> None:
    history = Materialized.versioned("history", history_retention=100)
    table = StreamsBuilder().table("in", materialized=history)

    for one in (table, table.filter(lambda k, v: True), table.map_values(str)):
        with pytest.raises(TopologyError, match="versioned"):
            one.suppress(Suppressed.until_time_limit(1))


def test_b66_updates_do_not_start_the_wait_anew() -> None:
    with TopologyTestDriver(held(Suppressed.until_time_limit(10))) as driver:
        assert sent(driver, "k:1@0 k:2@5 x:9@10") == "k=2@5"


def test_b67_one_final_result_of_a_session_and_none_of_its_parts() -> None:
    """With grace, as out of order as it may be; without, [0,0] is over when 20 comes, and 10 begins another session."""
    shape = topology(lambda b: sessions(10, grace=10)(b).suppress(FINAL))
    with TopologyTestDriver(shape) as driver:
        assert sent(driver, "k@0 k@19 k@10 x@38", closed=True) == ""
        assert sent(driver, "x@39", closed=True) == "k[0,19]=3@19"
        assert drops(driver) == 0


def test_entries_of_one_time_leave_in_the_order_of_their_keys_bytes() -> None:
    with TopologyTestDriver(held(Suppressed.until_time_limit(10))) as driver:
        assert sent(driver, "b:1@0 aa:1@0 a:1@0 z:1@10") == "a=1@0 aa=1@0 b=1@0"


def test_a_deletion_is_held_and_given_out_like_any_update() -> None:
    with TopologyTestDriver(held(Suppressed.until_time_limit(10))) as driver:
        assert sent(driver, "k:1@0 k:null@5 x:1@10") == "k=null@5"


def test_headers_are_those_of_the_newest_update() -> None:
    with TopologyTestDriver(held(Suppressed.until_time_limit(10))) as driver:
        for time, header in ((0, b"first"), (5, b"second")):
            driver.input_topic("in").send("v", key="k", timestamp=time, headers={"h": header})
        send(driver, "x:1@10")

        assert [dict(record.headers) for record in driver.output_topic("out")] == [{"h": b"second"}]


def test_what_is_held_and_the_clock_outlive_a_crash() -> None:
    with TopologyTestDriver(held(Suppressed.until_time_limit(10)), auto_commit=False) as driver:
        send(driver, "b:1@3 a:1@3 c:1@5")
        driver.commit()
        driver.crash()
        send(driver, "a:2@4")
        driver.crash()
        send(driver, "d:1@13")
        driver.commit()
        driver.crash()
        send(driver, "d:2@1")  # the clock is at 13: nothing more is due
        driver.commit()

        assert read(driver) == "a=2@4 b=1@3"


def test_the_end_gives_out_all_in_the_order_of_their_times() -> None:
    with TopologyTestDriver(held(Suppressed.until_time_limit(10**9))) as driver:
        send(driver, "b:1@3 a:1@5 c:1@1")
        driver.end_of_input()

        assert read(driver) == "c=1@1 b=1@3 a=1@5"


def test_a_session_that_was_given_out_and_gets_one_more_record_at_its_very_close_time_comes_again() -> None:
    """As in Kafka Streams: suppress lets a session go one millisecond before its aggregation closes it (3.1)."""
    shape = topology(lambda b: ByWindow(SessionWindows(10), "count", retention=100)(b).suppress(FINAL))
    with TopologyTestDriver(shape) as driver:
        assert sent(driver, "k@0 x@10", closed=True) == "k[0,0]=1@0"
        assert sent(driver, "k@0", closed=True) == "k[0,0]=2@0"
        assert sent(driver, "x@11 k@0", closed=True) == ""


@pytest.mark.parametrize(
    "settings", [{"wait": -1}, {"wait": 1, "max_records": -1}, {"wait": 1, "max_bytes": -1}, {"wait": 1, "when_full": "maybe"}]
)
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        Suppressed.until_time_limit(**settings)


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_partitions_give_the_same_final_results(partitions: int) -> None:
    with TopologyTestDriver(final(10, 5), partitions=partitions) as driver:
        send(driver, " ".join(f"{key}@{time}" for time in range(0, 50, 3) for key in "abcde"))
        driver.end_of_input()
        results = sorted(read(driver).split())

    with TopologyTestDriver(final(10, 5)) as driver:
        send(driver, " ".join(f"{key}@{time}" for time in range(0, 50, 3) for key in "abcde"))
        driver.end_of_input()

        assert results == sorted(read(driver).split())
