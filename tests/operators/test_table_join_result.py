"""The result of a join of two tables: names, types, look-ups, errors (spec-joins 0.3, 3)."""

from __future__ import annotations

from typing import Any

import pytest

from raystreams import (
    KTable,
    Materialized,
    ProcessingError,
    Record,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
)
from tests.operators.scenario import dashed, rows, run
from tests.operators.table_joins import METHODS, joined, versioned


def with_key(key: str, left: str | None, right: str | None) -> str:
    return f"{key}({dashed(left, right)})"


@pytest.mark.parametrize("method", METHODS)
def test_a_joiner_with_key_gets_left_before_right_on_both_sides(method: str) -> None:
    lines = [("L k A 1", "-" if method == "join" else "k:k(A-null)@1"), ("R k b 2", "k:k(A-b)@2"), ("L k C 3", "k:k(C-b)@3")]

    run(joined(method, joiner=with_key, with_key=True), lines)


def chained(materialized: Materialized[Any, Any] | None) -> Topology:
    """(L outer R) left M: the first result is looked up in, and asked for old values."""
    builder = StreamsBuilder()
    first = builder.table("L").outer_join(builder.table("R"), dashed, materialized=materialized)
    first.left_join(builder.table("M"), dashed).to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("materialized", [None, Materialized.key_value("first")], ids=["computed", "stored"])
def test_a_join_of_a_join_finds_its_rows_with_or_without_a_store(materialized: Materialized[Any, Any] | None) -> None:
    vector = """
        M k m 1  ->  -
        R k r 7  ->  k:null-r-m@7
        L k l 3  ->  k:l-r-m@7
        M k n 4  ->  k:l-r-n@7
        L k ~ 8  ->  k:null-r-n@8
        R k ~ 9  ->  k:null@9
        R k ~ 9  ->  -
        M k o 9  ->  -
        L j l 2  ->  j:l-null-null@2
        M j m 1  ->  j:l-null-m@2
    """

    run(chained(materialized), rows(vector))


@pytest.mark.parametrize("materialized", [None, Materialized.key_value("result")], ids=["computed", "stored"])
def test_pk_23_old_results_are_taken_out_of_an_aggregate(materialized: Materialized[Any, Any] | None) -> None:
    builder = StreamsBuilder()
    left, right = (builder.table(name, materialized=versioned(name)) for name in "LR")
    grouped = left.left_join(right, dashed, materialized=materialized).group_by(lambda k, v: ("g", v))
    grouped.reduce(lambda a, v: f"{a}+{v}", lambda a, v: f"{a}(-{v})").to_stream().to("out")
    vector = """
        L k A 10  ->  g:A-null@10
        L k B 20  ->  g:A-null(-A-null)+B-null@20
        L k C 15  ->  - #dropped+1
        R k r 5   ->  g:A-null(-A-null)+B-null(-B-null)+B-r@20
        L k D 30  ->  g:A-null(-A-null)+B-null(-B-null)+B-r(-B-r)+D-r@30
    """

    run(builder.build(), rows(vector))


def test_a_result_with_a_store_is_queried_and_a_look_up_finds_it() -> None:
    handle = Materialized.key_value("docs", key=str, value=str)
    with TopologyTestDriver(joined("join", materialized=handle)) as driver:
        driver.input_topic("L").send("a", key="k", timestamp=1)
        driver.input_topic("R").send("b", key="k", timestamp=2)

        assert list(driver.store(handle).all()) == [("k", "a-b")]


def test_drops_and_errors_are_counted_under_the_joins_name() -> None:
    def no(left: str, right: str) -> str:
        raise ValueError(left)

    topology = joined("join", versioned("l"), joiner=no, name="docs", on_error="skip")
    with TopologyTestDriver(topology) as driver:
        for topic, timestamp in (("L", 5), ("R", 5), ("L", 3)):
            driver.input_topic(topic).send("v", key="k", timestamp=timestamp)

        assert driver.dropped == {("docs", "error"): 1, ("docs", "out of order"): 1}


def test_a_joiner_that_raises_is_a_processing_error() -> None:
    with TopologyTestDriver(joined("left_join", joiner=lambda a, b: a + b, name="docs")) as driver:
        with pytest.raises(ProcessingError, match="'docs-join-this' failed on key 'k' at time 5") as raised:
            driver.input_topic("L").send("a", key="k", timestamp=5)

        assert isinstance(raised.value.__cause__, TypeError)


def test_names_are_kafkas() -> None:
    builder = StreamsBuilder()
    left, right = builder.table("L"), builder.table("R")
    left.join(right, dashed)
    left.left_join(right, dashed, name="named")
    left.left_join(right, dashed, materialized=Materialized.key_value(value=str))
    topology = builder.build()

    assert list(topology.nodes)[4:] == [
        "KTABLE-JOINTHIS-0000000007", "KTABLE-JOINOTHER-0000000008", "KTABLE-MERGE-0000000006",
        "named-join-this", "named-join-other", "named",
        "KTABLE-JOINTHIS-0000000014", "KTABLE-JOINOTHER-0000000015", "KTABLE-MERGE-0000000013",
    ]  # fmt: skip
    assert list(topology.stores)[2:] == ["KTABLE-MERGE-STATE-STORE-0000000012"]


def test_what_can_not_be_joined_is_refused_at_the_call() -> None:
    table, other = StreamsBuilder().table("L"), StreamsBuilder().table("R")
    with pytest.raises(ValueError, match="same StreamsBuilder"):
        table.join(other, dashed)
    with pytest.raises(TypeError, match="a table is joined with a KTable"):
        table.join("R", dashed)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="joiner must be callable"):
        table.join(table, None)  # type: ignore[call-overload]  # that is the point


def test_values_are_typed_by_the_joiner() -> None:
    builder = StreamsBuilder()

    def length(left: str, right: str) -> int:
        return len(left + right)

    table: KTable[Any, int] = builder.table("L").join(builder.table("R"), length)

    assert table._value.description == "int"


def test_windowed_tables_are_joined_by_key_and_window() -> None:
    builder = StreamsBuilder()
    left, right = (builder.stream(name).group_by_key().windowed_by(TimeWindows(10)).count() for name in "LR")
    often = left.filter(lambda k, n: n > 1, materialized=Materialized.key_value("often"))
    often.outer_join(right, lambda a, b: [a, b], materialized=Materialized.key_value("result")).to_stream().to("out")
    with TopologyTestDriver(builder.build(), partitions=2) as driver:
        for topic, key, timestamp in (("L", "k", 1), ("R", "k", 2), ("L", "k", 3), ("L", "j", 15), ("R", "k", 19)):
            driver.input_topic(topic).send("v", key=key, timestamp=timestamp)

        assert driver.output_topic("out").read_all() == [
            Record(Windowed("k", 0, 10), [None, 1], 2),
            Record(Windowed("k", 0, 10), [2, 1], 3),
            Record(Windowed("k", 10, 20), [None, 1], 19),
        ]
        assert list(driver.store("often").all()) == [(Windowed("k", 0, 10), 2)]
        assert driver.store("result").get(Windowed("k", 10, 20)) == [None, 1]
