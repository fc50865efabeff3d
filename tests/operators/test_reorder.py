"""Tables whose records are sorted by time before anything sees them (KIP-914's long-term vision)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import Consumed, Materialized, StreamsBuilder, Topology, TopologyTestDriver
from tests.operators.scenario import Scenario, rows, run


def table(grace: int, *, of_stream: bool = False, **options: Any) -> Topology:
    builder = StreamsBuilder()
    if of_stream:
        made = builder.stream("T").to_table(grace=grace, **options)
    else:
        made = builder.table("T", consumed=Consumed(reorder=grace), **options)
    made.to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("of_stream", [False, True])
def test_records_leave_in_the_order_of_their_time_and_late_ones_are_dropped(of_stream: bool) -> None:
    vector = rows("""
        T a 5 5 h5  -> -
        T a 3 3     -> a:3@3
        T b 4 4     -> -
        T b 2 6     -> b:4@4
        T a ~ 4     -> a:null@4
        T a 1 3     -> - #dropped+1
        T ~ x 20    -> - #dropped+1
        T a 9 9     -> a:5@5<h=h5> b:2@6
    """)

    run(table(2, of_stream=of_stream), vector)


def test_equal_times_of_a_key_keep_their_order_and_others_go_by_key() -> None:
    run(
        table(1),
        rows("""
            T b 1 5 -> -
            T a 2 5 -> -
            T b 3 5 -> -
            T c 4 6 -> a:2@5 b:1@5 b:3@5
        """),
    )


def test_the_rest_comes_out_at_the_end_of_input() -> None:
    with Scenario(table(100)) as scenario:
        scenario.check(rows("""
            T a 5 5 -> -
            T a 3 3 -> -
        """))
        scenario.driver.end_of_input()

        assert [(r.value, r.timestamp) for r in scenario.driver.output_topic("out").read_all()] == [("3", 3), ("5", 5)]


def test_event_time_alone_lets_out_what_a_record_would() -> None:
    with Scenario(table(2)) as scenario:
        scenario.check(rows("""
            T a 5 5 -> -
            T b 4 4 -> -
        """))
        scenario.driver.advance_event_time(6)

        assert [r.value for r in scenario.driver.output_topic("out").read_all()] == ["4"]


def test_what_waits_survives_a_crash() -> None:
    with TopologyTestDriver(table(2), auto_commit=False) as driver:
        driver.input_topic("T").send("late", key="a", timestamp=9)
        driver.input_topic("T").send("early", key="a", timestamp=8)
        driver.commit()
        driver.crash()
        driver.input_topic("T").send("now", key="b", timestamp=11)
        driver.commit()

        assert driver.output_topic("out").read_values() == ["early", "late"]


def test_names_and_drops_follow_the_table() -> None:
    topology = table(2, materialized=Materialized.key_value("rows"), name="users")
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("T").send("x", key="a", timestamp=9)
        driver.input_topic("T").send("x", key="a", timestamp=1)

        assert dict(driver.dropped) == {("users-reorder", "late"): 1}
    assert set(topology.stores) == {"rows", "users-reorder-buffer"}
    assert topology.unnamed_stateful == ()
    assert table(2).unnamed_stateful == ("KTABLE-SOURCE-0000000002-reorder-buffer",)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 9), st.integers(0, 20)), max_size=30),
    st.integers(0, 8),
)
def test_all_that_is_on_time_comes_out_sorted(events: list[tuple[str, int | None, int]], grace: int) -> None:
    newest, on_time = -1, []
    for number, (key, value, time) in enumerate(events):
        if time >= newest - grace:
            on_time.append((time, key, number, value))
        newest = max(newest, time)
    with TopologyTestDriver(table(grace)) as driver:
        for key, value, time in events:
            driver.input_topic("T").send(value, key=key, timestamp=time)
        driver.end_of_input()

        found = [(r.timestamp, r.key, r.value) for r in driver.output_topic("out").read_all()]
        assert [time for time, _, _ in found] == sorted(time for time, _, _, _ in on_time)
        for key in "ab":
            wanted = [(time, key, value) for time, own, _, value in sorted(on_time, key=lambda event: event[:3]) if own == key]
            assert [row for row in found if row[1] == key] == wanted
        assert sum(driver.dropped.values()) == len(events) - len(on_time)
