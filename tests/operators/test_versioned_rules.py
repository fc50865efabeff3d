"""How being versioned travels from table to table (KIP-914, spec-joins 8, vectors VS-01 to VS-14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raystreams import KTable, Materialized, StreamsBuilder, Topology
from tests.operators.scenario import dashed, rows, run

Shape = Callable[[KTable[Any, Any]], KTable[Any, Any]]

STORED = Materialized.key_value("stored")
TYPES = Materialized.key_value(value=str)


def versioned(name: str = "v") -> Materialized[Any, Any]:
    return Materialized.versioned(name, history_retention=1000)


def same(table: KTable[Any, Any], materialized: Materialized[Any, Any] | None = None) -> KTable[Any, Any]:
    """A map that changes nothing."""
    return table.map_values(lambda v: v, materialized=materialized)


def filtered(table: KTable[Any, Any], materialized: Materialized[Any, Any] | None = None) -> KTable[Any, Any]:
    """A filter that lets everything through."""
    return table.filter(lambda k, v: True, materialized=materialized)


SHAPES: list[tuple[str, Materialized[Any, Any] | None, Shape, bool]] = [
    ("a table", None, lambda t: t, False),
    ("a stored table", STORED, lambda t: t, False),
    ("a versioned table", versioned(), lambda t: t, True),
    ("VS-01 through a stream", versioned(), lambda t: t.to_stream().to_table(materialized=STORED), False),
    ("VS-02 a stream as a versioned table", None, lambda t: t.to_stream().to_table(materialized=versioned()), True),
    ("VS-03 a map", versioned(), same, True),
    ("VS-04 a filter", versioned(), filtered, True),
    ("VS-05 a stored map", versioned(), lambda t: same(t, STORED), False),
    ("VS-06 a versioned map", STORED, lambda t: same(t, versioned()), True),
    ("VS-07 types alone change nothing (DECISION)", versioned(), lambda t: same(t, TYPES), True),
    ("types alone, unversioned", STORED, lambda t: same(t, TYPES), False),
    ("a chain", versioned(), lambda t: filtered(same(filtered(t))), True),
    ("a chain with a store in it", versioned(), lambda t: filtered(same(filtered(t, STORED))), False),
]
JOINS: list[tuple[str, Materialized[Any, Any] | None, Shape, bool]] = [
    ("a join", versioned(), lambda t: t.left_join(t, lambda a, b: a), False),
    ("a stored join", versioned(), lambda t: t.left_join(t, lambda a, b: a, materialized=STORED), False),
    ("a versioned join", STORED, lambda t: t.left_join(t, lambda a, b: a, materialized=versioned()), True),
]


def each(shapes: list[tuple[str, Materialized[Any, Any] | None, Shape, bool]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("source", "shape", "is_versioned"), [row[1:] for row in shapes], ids=[row[0] for row in shapes]
    )


def described(source: Materialized[Any, Any] | None, shape: Shape) -> tuple[StreamsBuilder, KTable[Any, Any]]:
    builder = StreamsBuilder()
    return builder, shape(builder.table("L", materialized=source))


@each(SHAPES + JOINS)
def test_the_mark(source: Materialized[Any, Any] | None, shape: Shape, is_versioned: bool) -> None:
    _, table = described(source, shape)

    assert table._table.versioned is is_versioned


@each(SHAPES + JOINS)
def test_a_stream_looks_up_as_of_its_time_just_where_the_table_is_versioned(
    source: Materialized[Any, Any] | None, shape: Shape, is_versioned: bool
) -> None:
    """What Kafka does in VS-08 and ours in VS-07 is the same here: mark and look-up never disagree."""
    builder, table = described(source, shape)
    builder.stream("S").left_join(table, dashed).to("out")
    vector = f"""
        L k a 1  ->  -
        L k b 5  ->  -
        S k s 3  ->  k:s-{"a" if is_versioned else "b"}@3
        S k s 6  ->  k:s-b@6
    """

    run(builder.build(), rows(vector))


@each(SHAPES)
def test_vs_12_to_14_a_join_drops_what_is_out_of_order_just_where_the_table_is_versioned(
    source: Materialized[Any, Any] | None, shape: Shape, is_versioned: bool
) -> None:
    builder, table = described(source, shape)
    table.outer_join(builder.table("R"), dashed, name="j").to_stream(name="changes").to("out")
    vector = f"""
        L k a 10  ->  k:a-null@10
        L k b 5   ->  {"- #dropped+1" if is_versioned else "k:b-null@5"}
    """

    run(builder.build(), rows(vector))


def is_even(key: str, value: str) -> bool:
    return int(value) % 2 == 0


@each(SHAPES)
def test_vs_01_to_07_a_filter_repeats_deletions_just_where_the_table_is_versioned(
    source: Materialized[Any, Any] | None, shape: Shape, is_versioned: bool
) -> None:
    builder, table = described(source, shape)
    changes = table.filter(is_even)
    changes.to_stream().to("out")
    # Old values, wherever they come from.
    changes.left_join(builder.table("R"), lambda a, b: a)
    vector = f"""
        L k 2 1  ->  k:2@1
        L k 1 2  ->  k:null@2
        L k 1 3  ->  {"k:null@3" if is_versioned else "-"}
    """

    run(builder.build(), rows(vector))


def test_vs_09_rows_that_fail_a_filter_are_no_rows_at_their_time() -> None:
    builder = StreamsBuilder()
    table = builder.table("T", materialized=versioned()).filter(lambda k, v: v != "a")
    builder.stream("S").left_join(table, dashed).to("out")

    run(builder.build(), [("T k a 1", "-"), ("T k b 5", "-"), ("S k s 3", "k:s-null@3"), ("S k s 6", "k:s-b@6")])


def two_joined(materialized: Materialized[Any, Any] | None) -> Topology:
    builder = StreamsBuilder()
    left, right = (builder.table(name, materialized=versioned(name)) for name in "LR")
    builder.stream("S").join(left.join(right, dashed, materialized=materialized), dashed).to("out")
    return builder.build()


def test_vs_10_a_join_of_versioned_tables_is_looked_up_in_as_it_is_now() -> None:
    run(two_joined(None), [("L k a 1", "-"), ("R k r 1", "-"), ("L k b 5", "-"), ("S k s 3", "k:s-b-r@3")])


def test_vs_11_unless_it_is_versioned_itself() -> None:
    lines = [("L k a 1", "-"), ("R k r 1", "-"), ("L k b 5", "-"), ("S k s 3", "k:s-a-r@3")]

    run(two_joined(versioned("result")), lines)
