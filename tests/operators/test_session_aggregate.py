"""Aggregations by sessions (spec-runtime 3.5): merging, tombstones, closing (field reports B36, B37)."""

from __future__ import annotations

from typing import Any

import pytest

from raystreams import Materialized, SessionWindows, StreamsBuilder, TopologyTestDriver
from tests.operators.aggregation_texts import drops, key_text, merged, plus, send, sent, zero
from tests.operators.runtime_vectors import grouped, sessions, topology

B37 = "k@0 k@20 k@10 k@40 k@30"
B37_OUTPUTS = (
    "k[0,0]=1@0 k[20,20]=1@20 k[0,0]=null@0 k[20,20]=null@20 k[0,20]=3@20 k[40,40]=1@40 "
    "k[0,20]=null@20 k[40,40]=null@40 k[0,40]=5@40"
)


def kept(driver: TopologyTestDriver) -> str:
    with driver.store("store").fetch_range(None, None) as rows:
        return " ".join(f"{key_text(key, closed=True)}={value}" for key, value in rows)


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_b37_a_record_between_two_sessions_makes_them_one(partitions: int) -> None:
    with TopologyTestDriver(topology(sessions(10, grace=100)), partitions=partitions) as driver:
        assert sent(driver, B37, closed=True) == B37_OUTPUTS
        assert kept(driver) == "k[0,40]=5"


def test_e8_with_the_default_retention_an_old_session_is_no_more_than_a_gap_long_there() -> None:
    with TopologyTestDriver(topology(sessions(300_000))) as driver:
        assert sent(driver, "mel@0 mel@300001 mel@150000", closed=True) == (
            "mel[0,0]=1@0 mel[300001,300001]=1@300001 mel[300001,300001]=null@300001 mel[150000,300001]=2@300001"
        )


def test_b36_records_a_gap_apart_are_one_session_and_one_millisecond_more_are_two() -> None:
    with TopologyTestDriver(topology(sessions(10, retention=1000))) as driver:
        assert sent(driver, "k@0 k@10 n@0 n@11", closed=True) == (
            "k[0,0]=1@0 k[0,0]=null@0 k[0,10]=2@10 n[0,0]=1@0 n[11,11]=1@11"
        )


def test_a_gap_of_zero_makes_sessions_of_equal_times() -> None:
    with TopologyTestDriver(topology(sessions(0, grace=10))) as driver:
        assert sent(driver, "k@5 k@5 k@6 k@5", closed=True) == "k[5,5]=1@5 k[5,5]=2@5 k[6,6]=1@6 k[5,5]=3@5"


def test_an_old_record_counts_if_the_session_that_it_touches_is_live() -> None:
    with TopologyTestDriver(topology(sessions(10, grace=0))) as driver:
        assert sent(driver, "k@20 x@29 k@11", closed=True) == ("k[20,20]=1@20 x[29,29]=1@29 k[20,20]=null@20 k[11,20]=2@20")
        assert drops(driver) == 0


def test_what_was_merged_away_carries_its_old_value_for_those_who_ask() -> None:
    def shape(builder: StreamsBuilder) -> Any:
        counts = grouped(builder).windowed_by(SessionWindows(10, grace=100)).count()
        return counts.group_by(lambda key, count: (key.key, count), key=str).reduce(lambda a, b: a + b, lambda a, b: a - b)

    with TopologyTestDriver(topology(shape)) as driver:
        # Each merge: what was is subtracted, then the whole is added; in the end all five.
        assert sent(driver, B37).split()[-1] == "k=5@40"


def test_within_its_own_time_the_merger_gets_the_initial_value_on_the_left() -> None:
    calls: list[tuple[str, str]] = []

    def watched(key: str, a: str, b: str) -> str:
        calls.append((a, b))
        return merged(key, a, b)

    shape = topology(lambda b: grouped(b).windowed_by(SessionWindows(10, grace=50)).aggregate(zero, plus, watched))
    with TopologyTestDriver(shape) as driver:
        send(driver, "k:a@0 k:b@20 k:c@10")

    assert calls == [("0", "0+a"), ("0+0+a", "0+b")]


def test_updates_carry_no_headers() -> None:
    with TopologyTestDriver(topology(sessions(10))) as driver:
        driver.input_topic("in").send("a", key="k", timestamp=1, headers={"h": b"1"})

        assert [dict(record.headers) for record in driver.output_topic("out")] == [{}]


def test_a_session_whose_aggregate_is_none_is_gone() -> None:
    def deleting(key: str, value: str, aggregate: str) -> str | None:
        return None if value == "x" else plus(key, value, aggregate)

    shape = topology(
        lambda b: (
            grouped(b)
            .windowed_by(SessionWindows(10))
            .aggregate(zero, deleting, merged, materialized=Materialized.session("store"))
        )
    )
    with TopologyTestDriver(shape) as driver:
        assert sent(driver, "k:a@5 k:x@6 k:b@7", closed=True) == "k[5,5]=0+a@5 k[5,5]=null@5 k[5,6]=null@6 k[7,7]=0+b@7"
        assert kept(driver) == "k[7,7]=0+b"


def test_a_crash_between_the_tombstones_and_the_merged_session_leaves_neither_half() -> None:
    for commit_after in range(5):
        with TopologyTestDriver(topology(sessions(10, grace=100)), auto_commit=False) as driver:
            for number, word in enumerate(B37.split()):
                send(driver, word)
                if number == commit_after:
                    driver.commit()
                driver.crash()
            driver.commit()

            assert sent(driver, "") == B37_OUTPUTS.replace("]", ")")
            assert kept(driver) == "k[0,40]=5"


def test_the_old_value_of_a_session_is_what_was_stored_whatever_the_functions_do_with_what_they_get() -> None:
    def appended(key: str, value: str, values: list[str]) -> list[str]:
        values.append(value)
        return values

    def either(key: str, a: list[str], b: list[str]) -> list[str]:
        return b if not a else a + b  # the stored session itself, which the aggregator then changes

    def shape(builder: StreamsBuilder) -> Any:
        lists = grouped(builder).windowed_by(SessionWindows(10, grace=100)).aggregate(list, appended, either)
        return lists.group_by(lambda key, values: ("all", len(values))).reduce(lambda a, b: a + b, lambda a, b: a - b)

    with TopologyTestDriver(topology(shape)) as driver:
        assert sent(driver, "k:a@0 k:b@5 k:c@3") == "all=1@0 all=0@0 all=2@5 all=0@5 all=3@5"
