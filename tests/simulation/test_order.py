"""The order in which records are processed is a function of the data: not of batches, speed, commits or crashes.

Each topology here keeps lists, so any other order shows. Splits are disordered, times are equal often, tables come late.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from raystreams.cluster.simulated_run import SimulatedRun, SplitInput

from raystreams import Record, StreamsBuilder, Topology
from tests.simulation.worlds import append, by_k, k, pair


def two_streams_and_a_table() -> Topology:
    builder = StreamsBuilder()
    table, clicks, views = builder.table("t"), builder.stream("s"), builder.stream("w")
    merged = clicks.select_key(by_k).merge(views)
    merged.left_join(table, pair).group_by(by_k).aggregate(list, append).to_stream().to("lists")
    clicks.left_join(table, pair, stream_foreign_key=k).to("looked-up")
    return builder.build()


TOPOLOGY = two_streams_and_a_table()

rows = st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 20))


def split(topic: str, given: list[tuple[str, str | None, int, int]], disorder: int) -> SplitInput:
    records: list[Record[Any, Any]] = []
    for key, other, number, time in given:
        value = None if topic == "t" and other is None else {"k": other or "a", "n": number}
        records.append(Record(key, value, time))
    return SplitInput(topic=topic, records=records, disorder=disorder if topic == "t" else 0)


@st.composite
def inputs(draw: st.DrawFn) -> list[SplitInput]:
    topics = draw(st.lists(st.sampled_from(["s", "w", "t"]), min_size=2, max_size=5))
    return [split(topic, draw(st.lists(rows, max_size=10)), draw(st.sampled_from([0, 6]))) for topic in topics]


def outputs(splits: list[SplitInput], partitions: int, random: Random | None, crashes: int, edge_records: int = 64) -> Any:
    run = SimulatedRun(TOPOLOGY, splits, partitions, random, crashes=crashes, edge_records=edge_records)
    return {place: records for place, records in run.run().outputs.items() if records}


@settings(max_examples=20, deadline=None)
@given(inputs(), st.integers(1, 3), st.integers(0, 2**32), st.sampled_from([1, 3, 64]))
def test_batches_speed_and_commits_do_not_change_the_order(
    splits: list[SplitInput], partitions: int, seed: int, edge_records: int
) -> None:
    expected = outputs(splits, partitions, None, 0)

    assert outputs(splits, partitions, Random(seed), 0, edge_records) == expected


@settings(max_examples=20, deadline=None)
@given(inputs(), st.integers(1, 3), st.integers(0, 2**32))
def test_crashes_do_not_change_the_order(splits: list[SplitInput], partitions: int, seed: int) -> None:
    expected = outputs(splits, partitions, None, 0)

    assert outputs(splits, partitions, Random(seed), 6) == expected
