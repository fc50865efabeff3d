"""Three ways to join a stream with the row of its key give the same results, also with versions and grace.

An index has a clock of its own (spec-joins 9.3), so where history ends it may know a little more than the table does.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import Joined, Materialized, StreamsBuilder, Topology, TopologyTestDriver
from tests.operators.scenario import dashed

WAYS: dict[str, dict[str, Any]] = {
    "by key": {},
    "by the table's foreign key": {"table_foreign_key": lambda key, row: key, "foreign_key_with_key": True},
    "by the stream's foreign key": {"stream_foreign_key": lambda key, value: key, "foreign_key_with_key": True},
}
VALUES = st.none() | st.sampled_from("xyz")
EVENTS = st.lists(
    st.tuples(st.sampled_from("SST"), st.sampled_from(["a", "b", "ab", None]), VALUES, st.integers(0, 40)), max_size=30
)
SHORT, LONG = 10, 1000


def topology(way: str, kind: str, retention: int | None, grace: int | None) -> Topology:
    builder = StreamsBuilder()
    materialized = None if retention is None else Materialized.versioned("t", history_retention=retention)
    stream, table = builder.stream("S"), builder.table("T", materialized=materialized)
    join = stream.join if kind == "inner" else stream.left_join
    join(table, dashed, joined=None if grace is None else Joined(grace=grace), **WAYS[way]).to("out")
    return builder.build()


@settings(max_examples=40, deadline=None)
@given(
    EVENTS,
    st.sampled_from(["inner", "left"]),
    st.sampled_from([None, SHORT, LONG]),
    st.none() | st.integers(0, 5),
    st.booleans(),
)
def test_they_agree(
    events: list[tuple[str, str | None, str | None, int]], kind: str, retention: int | None, grace: int | None, ends: bool
) -> None:
    results = {}
    for way in WAYS:
        with TopologyTestDriver(topology(way, kind, retention, grace if retention is not None else None)) as driver:
            steps = []
            for topic, key, value, time in events:
                driver.input_topic(topic).send(value, key=key, timestamp=time)
                steps.append([(r.key, r.value, r.timestamp) for r in driver.output_topic("out").read_all()])
            if ends:
                driver.end_of_input()
                steps.append([(r.key, r.value, r.timestamp) for r in driver.output_topic("out").read_all()])
            results[way] = steps

    assert results["by the stream's foreign key"] == results["by key"]
    if retention != SHORT:
        assert results["by the table's foreign key"] == results["by key"]
