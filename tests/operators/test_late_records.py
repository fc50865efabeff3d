"""Records that are late for windows: each window that one misses is counted; late for all, it goes to `late_records_to`, once."""

from __future__ import annotations

from typing import Any

import pytest

from raystreams import (
    DeadLetter,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topic,
    Topology,
    TopologyError,
    TopologyTestDriver,
    UnlimitedWindows,
)
from tests.operators.aggregation_texts import drops, read, send, texts
from tests.operators.runtime_vectors import grouped


def counting(windows: Any, late: str | Topic[Any, Any] | None = "late", **options: Any) -> Topology:
    builder = StreamsBuilder()
    windowed: Any = grouped(builder).windowed_by(windows, late_records_to=late)
    windowed.count(name="visits", **options).to_stream().to("out")
    return builder.build()


def late(driver: TopologyTestDriver, topic: str = "late") -> str:
    return texts(driver.output_topic(topic).read_all())


def test_a_record_that_is_late_for_all_its_windows_is_kept_aside_once_and_each_window_counted() -> None:
    with TopologyTestDriver(counting(TimeWindows(10, advance=5, grace=2))) as driver:
        send(driver, "k:a@20 k:b@8 k:c@7 k:d@12 k:e@13")

        # Closed at 18: [0,10), [5,15). b and c miss both of their windows, d and e one of theirs.
        assert late(driver) == "k=b@8 k=c@7"
        assert driver.dropped == {("visits", "late"): 6}
        assert read(driver) == "k[15,25)=1@20 k[20,30)=1@20 k[10,20)=1@12 k[10,20)=2@13"


def test_a_late_record_keeps_its_time_and_headers() -> None:
    with TopologyTestDriver(counting(TimeWindows(10))) as driver:
        send(driver, "k:a@50")
        driver.input_topic("in").send("b", key="k", timestamp=3, headers={"h": b"x"})
        (record,) = driver.output_topic("late").read_all()

        assert (record.key, record.value, record.timestamp, dict(record.headers)) == ("k", "b", 3, {"h": b"x"})


def test_a_sliding_record_whose_only_window_has_closed_is_late_even_if_it_could_have_had_others() -> None:
    with TopologyTestDriver(counting(SlidingWindows(10, grace=90))) as driver:
        send(driver, "k:a@200 k:b@100 k:c@15 k:d@120")

        assert late(driver) == "k=b@100 k=c@15"
        assert driver.dropped == {("visits", "late"): 2}


def test_a_sliding_record_that_one_window_takes_is_not_late() -> None:
    with TopologyTestDriver(counting(SlidingWindows(50))) as driver:
        send(driver, "A:1@100 A:2@105 A:3@106 A:4@103 A:5@113")

        # The last but one is late for [53,103] and [55,105], and in time for [56,106] and [101,151].
        assert late(driver) == ""
        assert driver.dropped == {("visits", "late"): 2}


def test_a_record_is_late_for_a_session_by_the_end_of_what_it_merges_to() -> None:
    with TopologyTestDriver(counting(SessionWindows(10))) as driver:
        send(driver, "k:a@20 x:b@29 k:c@12 y:d@12")

        assert late(driver) == "y=d@12"
        assert driver.dropped == {("visits", "late"): 1}


def test_records_without_a_key_and_those_before_unlimited_windows_are_not_late() -> None:
    with TopologyTestDriver(counting(UnlimitedWindows(100))) as driver:
        send(driver, "null:a@200 k:b@50 k:c@200 k:d@150")

        assert late(driver) == ""
        assert driver.dropped == {("visits", "null key"): 1}


def test_late_records_are_counted_without_a_topic_too() -> None:
    with TopologyTestDriver(counting(TimeWindows(10), None)) as driver:
        send(driver, "k:a@50 k:b@1")

        assert driver.dropped == {("visits", "late"): 1}


def test_a_typed_topic_takes_late_records_with_its_types() -> None:
    topic = Topic("too-late", key=str, value=str)
    with TopologyTestDriver(counting(TimeWindows(10), topic)) as driver:
        send(driver, "k:a@50 k:b@1")

        assert late(driver, "too-late") == "k=b@1"


def test_late_records_are_written_with_the_commit_and_once() -> None:
    with TopologyTestDriver(counting(TimeWindows(10)), auto_commit=False) as driver:
        send(driver, "k:a@50 k:b@1")
        assert late(driver) == ""
        driver.crash()
        driver.commit()
        driver.crash()
        send(driver, "k:c@2")
        driver.commit()

        assert late(driver) == "k=b@1 k=c@2"
        assert driver.dropped == {("visits", "late"): 2}


def test_two_aggregations_of_one_stream_have_clocks_and_late_records_of_their_own() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in").group_by_key()
    stream.windowed_by(TimeWindows(10), late_records_to="late").count(name="short")
    stream.windowed_by(TimeWindows(100), late_records_to="very-late").count(name="long")

    with TopologyTestDriver(builder.build()) as driver:
        send(driver, "k:a@50 k:b@1 k:c@500 k:d@60")

        assert late(driver) == "k=b@1 k=d@60"
        assert late(driver, "very-late") == "k=d@60"
        assert driver.dropped == {("short", "late"): 2, ("long", "late"): 1}


def test_the_clock_of_lateness_outlives_a_restart() -> None:
    with TopologyTestDriver(counting(TimeWindows(10))) as driver:
        send(driver, "k:a@50")
        driver.crash()
        send(driver, "k:b@1")

        assert late(driver) == "k=b@1"


def test_each_partition_has_its_own_clock() -> None:
    with TopologyTestDriver(counting(TimeWindows(10)), partitions=5) as driver:
        send(driver, "a:x@100 b:x@5 c:x@6 d:x@7 e:x@8 f:x@9")
        of_one = late(driver)
        send(driver, "a:late@1")

        assert late(driver) == "a=late@1"
        assert drops(driver) == len(of_one.split()) + 1 < 6


def test_a_function_that_fails_makes_no_record_late() -> None:
    builder = StreamsBuilder()

    def fails(key: str, value: str, count: int) -> int:
        raise ValueError(value)

    grouped(builder).windowed_by(TimeWindows(10), late_records_to="late").aggregate(
        lambda: 0, fails, name="fails", on_error=DeadLetter("bad")
    )
    with TopologyTestDriver(builder.build()) as driver:
        send(driver, "k:a@50 k:b@1")

        assert late(driver) == "k=b@1"
        assert late(driver, "bad") == "k=a@50"
        assert driver.dropped == {("fails", "error"): 1, ("fails", "late"): 1}


@pytest.mark.parametrize("windows", [TimeWindows(10), SlidingWindows(5), SessionWindows(5)])
def test_a_cogroup_counts_late_records_under_its_name(windows: Any) -> None:
    builder = StreamsBuilder()
    together = grouped(builder).cogroup(lambda key, value, count: count + 1)
    both = together.cogroup(grouped(builder, "other"), lambda key, value, count: count + 1).windowed_by(windows)
    mergers = [lambda key, a, b: a + b] if isinstance(windows, SessionWindows) else []
    both.aggregate(lambda: 0, *mergers, name="both")

    with TopologyTestDriver(builder.build()) as driver:
        send(driver, "k:a@50 k:b@1")
        send(driver, "k:c@2", "other")  # its own clock: not late

        assert driver.dropped == {("both", "late"): 1}


def test_the_topic_of_late_records_has_a_legal_name() -> None:
    with pytest.raises(TopologyError, match="can't name a topic"):
        grouped(StreamsBuilder()).windowed_by(TimeWindows(10), late_records_to="too late")


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_topic_of_late_records_can_be_read_in_the_same_topology(partitions: int) -> None:
    builder = StreamsBuilder()
    windowed = builder.stream("in").group_by_key().windowed_by(TimeWindows(10), late_records_to="late")
    windowed.count(name="counts").to_stream().to("out")
    builder.stream("late").map_values(lambda value: f"late {value}").to("told")

    with TopologyTestDriver(builder.build(), partitions=partitions) as driver:
        send(driver, "a:x@100 a:y@1 a:z@101")

        assert read(driver) == "a[100,110)=1@100 a[100,110)=2@101"
        assert driver.output_topic("late").read_values() == ["y"]
        assert [(r.key, r.value, r.timestamp) for r in driver.output_topic("told").read_all()] == [("a", "late y", 1)]
        driver.end_of_input()
        assert driver.dropped == {("counts", "late"): 1}
