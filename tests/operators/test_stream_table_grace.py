"""Stream records that wait for late rows of a versioned table (KIP-923, spec-joins 5.1, vectors ST-05 to ST-19)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from raystreams import Joined, KTable, Materialized, Record, StreamsBuilder, Topology, TopologyTestDriver
from tests.operators.scenario import Scenario, dashed, one_key, rows, run
from tests.operators.test_stream_table_join import METHODS, ST_01_TO_06, joined


def graced(grace: int, method: str = "left_join", retention: int = 1000, **options: Any) -> Topology:
    return joined(method, retention=retention, joined=Joined(grace=grace), **options)


@pytest.mark.parametrize("column", [0, 1], ids=METHODS)
def test_st_05_and_06(column: int) -> None:
    run(graced(2, METHODS[column], stream="L", table="R"), one_key(ST_01_TO_06, column + 4))


def test_st_09_records_wait_and_late_ones_are_joined_at_once() -> None:
    vector = """
        T k a 0           ->  -
        S k s0 0 h0       ->  -
        S k s1 1 h1       ->  -
        S k s2 2 h2       ->  k:s0-a@0<h=h0>
        S k s3 3 h3       ->  k:s1-a@1<h=h1>
        T k b 2           ->  -
        S k late 0 hl     ->  k:late-a@0<h=hl>
        S j nomatch 7 h7  ->  k:s2-b@2<h=h2> k:s3-b@3<h=h3>
        S k eq 5 he       ->  k:eq-b@5<h=he>
        S k x 9           ->  -
    """

    run(graced(2, "join"), rows(vector))


def test_st_10_they_come_out_by_time_then_key_then_arrival() -> None:
    vector = """
        S b 1 10  ->  -
        S a 2 10  ->  -
        S a 3 10  ->  -
        S c 4 9   ->  -
        S d 5 8   ->  d:5-null@8
        S e 6 7   ->  e:6-null@7
        S z 7 12  ->  c:4-null@9 a:2-null@10 a:3-null@10 b:1-null@10
        S z 8 13  ->  -
    """

    run(graced(2), rows(vector))


def test_st_11_no_grace_is_no_wait() -> None:
    vector = """
        T k a 0   ->  -
        S k s0 0  ->  k:s0-a@0
        S k s1 5  ->  k:s1-a@5
        S k s2 3  ->  k:s2-a@3
    """

    run(graced(0), rows(vector))


def test_st_12_dropped_records_do_not_move_the_buffers_time() -> None:
    vector = """
        S k s0 0   ->  -
        S k ~ 100  ->  -   #dropped+1
        S k s1 1   ->  -
        S k s2 3   ->  k:s0-null@0 k:s1-null@1
    """

    run(graced(2), rows(vector))


def test_st_13_rows_that_come_within_grace_are_found() -> None:
    vector = """
        S k s 10     ->  -
        T k t 8      ->  -
        S k s2 14    ->  -
        T k t2 12    ->  -
        S k s3 15    ->  k:s-t@10
        S z z 19     ->  k:s2-t2@14
        S z z 20     ->  k:s3-t2@15
        T k t0 1     ->  -
        S k late 14  ->  k:late-t2@14
    """

    run(graced(5), rows(vector))


def test_st_14_records_without_a_key_do_not_wait() -> None:
    """DECISION: Kafka raises."""
    run(graced(2), [("S k s0 0", "-"), ("S ~ s1 1", "null:s1-null@1"), ("S k s2 2", "k:s0-null@0")])


def test_st_19_a_mapped_table_is_as_versioned_as_the_one_above() -> None:
    builder = StreamsBuilder()
    table = builder.table("T", materialized=Materialized.versioned("t", history_retention=1000))
    builder.stream("S").join(table.map_values(lambda v: v + "!"), dashed, joined=Joined(grace=2)).to("out")

    run(builder.build(), [("T k a 0", "-"), ("S k s0 0", "-"), ("S k s1 2", "k:s0-a!@0")])


VERSIONED = Materialized.versioned("t", history_retention=10)


def described(grace: Any, shape: Callable[[KTable[Any, Any]], KTable[Any, Any]], source: Any = None) -> Topology:
    builder = StreamsBuilder()
    table = shape(builder.table("T", materialized=source))
    builder.stream("S").left_join(table, dashed, joined=Joined(grace=grace)).to("out")
    return builder.build()


def test_st_15_and_16_grace_needs_a_versioned_table() -> None:
    for source in (None, Materialized.key_value("t"), Materialized.in_memory("t")):
        with pytest.raises(ValueError, match="needs a versioned table"):
            described(1, lambda t: t, source)
        with pytest.raises(ValueError, match="needs a versioned table"):
            described(1, lambda t: t.filter(lambda k, v: True), source)


def test_grace_over_a_row_store_below_a_versioned_table_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a versioned table"):
        described(1, lambda t: t.filter(lambda k, v: True, materialized=Materialized.key_value("f")), VERSIONED)


def test_grace_over_a_join_of_versioned_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a versioned table"):
        described(1, lambda t: t.left_join(t, dashed), VERSIONED)


def test_st_17_and_18_grace_may_be_as_long_as_the_history_and_no_longer() -> None:
    with pytest.raises(ValueError, match=r"grace period \(11 ms\) is longer than the table's history_retention \(10 ms\)"):
        described(11, lambda t: t, VERSIONED)

    run(described(10, lambda t: t, VERSIONED), [("S k a 1", "-")])


def test_the_history_may_be_that_of_a_table_further_up() -> None:
    with pytest.raises(ValueError, match="longer than the table's history_retention"):
        described(timedelta(milliseconds=11), lambda t: t.map_values(str).filter(lambda k, v: True), VERSIONED)


def test_negative_grace_is_refused() -> None:
    """DECISION: Kafka takes it, and joins everything at once."""
    with pytest.raises(ValueError, match="grace must not be negative"):
        described(-1, lambda t: t, VERSIONED)


def test_the_buffer_is_named_after_the_join() -> None:
    assert list(graced(2, name="enrich").stores) == ["t", "enrich-Buffer"]


def test_at_the_end_of_input_all_that_waits_comes_out_in_order() -> None:
    with Scenario(graced(100)) as scenario:
        for line in ("S b 1 10 h1", "S a 2 10 h2", "T a t 9", "S c 3 5 h3"):
            scenario.send(line)
        scenario.driver.end_of_input()

        assert scenario.driver.output_topic("out").read_all() == [
            Record("c", "3-null", 5, {"h": b"h3"}),
            Record("a", "2-t", 10, {"h": b"h2"}),
            Record("b", "1-null", 10, {"h": b"h1"}),
        ]


def test_a_watermark_lets_out_what_a_record_of_its_time_would() -> None:
    with Scenario(graced(2)) as scenario:
        scenario.check([("S k s0 0", "-"), ("S k s1 1", "-")])
        scenario.driver.advance_event_time(2)

        assert scenario.driver.output_topic("out").read_all() == [Record("k", "s0-null", 0)]

        scenario.driver.advance_event_time(100)

        assert scenario.driver.output_topic("out").read_all() == [Record("k", "s1-null", 1)]


def test_waiting_records_survive_a_crash() -> None:
    with TopologyTestDriver(graced(2), auto_commit=False) as driver:
        stream = driver.input_topic("S")
        stream.send("s0", key="k", timestamp=0, headers={"h": b"0"})
        stream.send("s0 again", key="k", timestamp=0)
        driver.commit()
        driver.crash()
        stream.send("s2", key="k", timestamp=2)
        driver.crash()
        driver.commit()

        assert driver.output_topic("out").read_all() == [
            Record("k", "s0-null", 0, {"h": b"0"}),
            Record("k", "s0 again-null", 0),
        ]


def test_records_with_a_new_key_wait_where_their_row_is() -> None:
    topology = graced(2, keyed=lambda s: s.select_key(lambda k, v: v[0]))
    lines = [("S q a 0", "-"), ("T a t 0", "-"), ("S q a2 2", "a:a-t@0")]

    run(topology, lines, partitions=3)
