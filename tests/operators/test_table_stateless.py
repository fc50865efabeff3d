"""filter, map_values and to_stream of tables (spec-joins 2, vectors TO-01 to TO-10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raystreams import KTable, Materialized, ProcessingError, Record, StreamsBuilder, Topology, TopologyTestDriver
from tests.operators.scenario import rows, run

VERSIONED = Materialized.versioned("versioned", history_retention=1000)
STORED = Materialized.key_value("stored")

INPUTS = ["L k 2 1", "L k 1 2", "L k 1 3", "L k ~ 4", "L k ~ 5", "L k 4 6", "L k 1 3"]


def is_even(key: str, value: str) -> bool:
    return int(value) % 2 == 0


def table(shape: Callable[[KTable[Any, Any]], KTable[Any, Any]], source: Materialized[Any, Any] | None = None) -> Topology:
    """The changes of what `shape` makes of table L."""
    builder = StreamsBuilder()
    shape(builder.table("L", materialized=source)).to_stream().to("out")
    return builder.build()


def check(topology: Topology, outputs: str) -> None:
    """Give INPUTS and compare: an output a line, - for none."""
    run(topology, zip(INPUTS, outputs.split(), strict=True))


REJECTED = "k:2@1 k:null@2 k:null@3 k:null@4 k:null@5 k:4@6 k:null@3"
"""Every row that fails comes out as a deletion."""
QUIET = "k:2@1 k:null@2 - - - k:4@6 k:null@3"
"""Only rows that were there are deleted."""


def test_to_01_a_source_passes_on_all_deletions_and_older_records() -> None:
    vector = """
        L A 1 10  ->  A:1@10
        L B 2 11  ->  B:2@11
        L A ~ 14  ->  A:null@14
        L A ~ 15  ->  A:null@15
        L B 3 5   ->  B:3@5
    """

    run(table(lambda t: t), rows(vector))
    run(table(lambda t: t, STORED), rows(vector))


def test_to_02_over_a_table_without_a_store_a_filter_deletes_whatever_fails() -> None:
    check(table(lambda t: t.filter(is_even)), REJECTED)


def test_to_03_over_a_stored_table_a_filter_says_nothing_where_nothing_was() -> None:
    check(table(lambda t: t.filter(is_even), STORED), QUIET)


def test_to_04_a_filter_with_a_store_of_its_own_has_no_old_values_of_its_own_accord() -> None:
    check(table(lambda t: t.filter(is_even, materialized=STORED)), REJECTED)


def test_to_05_over_a_versioned_table_a_filter_passes_on_every_change() -> None:
    check(table(lambda t: t.filter(is_even), VERSIONED), REJECTED)


def test_to_06_it_is_the_table_above_that_decides_not_the_filters_store() -> None:
    check(table(lambda t: t.filter(is_even, materialized=STORED), VERSIONED), REJECTED)


def test_a_versioned_filter_over_a_stored_table_says_nothing_where_nothing_was() -> None:
    check(table(lambda t: t.filter(is_even, materialized=VERSIONED), STORED), "k:2@1 k:null@2 - - - k:4@6 k:null@3")


def test_to_07_filter_not_keeps_what_fails() -> None:
    check(table(lambda t: t.filter_not(is_even), STORED), "- k:1@2 k:1@3 k:null@4 - - k:1@3")


def test_to_08_a_filter_of_a_filter() -> None:
    check(table(lambda t: t.filter(is_even).filter(lambda _, v: v == "4"), STORED), "- - - - - k:4@6 k:null@3")


def test_to_09_map_values_gives_a_change_for_each_change() -> None:
    outputs = "k:2!@1 k:1!@2 k:1!@3 k:null@4 k:null@5 k:4!@6 k:1!@3"

    check(table(lambda t: t.map_values(lambda v: v + "!")), outputs)
    check(table(lambda t: t.map_values(lambda v: v + "!", materialized=STORED)), outputs)
    check(table(lambda t: t.map_values(lambda k, v: v + "!", with_key=True), VERSIONED), outputs)


def test_to_10_a_mapper_that_returns_none_deletes() -> None:
    check(table(lambda t: t.map_values(lambda v: None if v == "1" else v)), REJECTED)


def test_b41_a_filter_deletes_only_what_it_passed_on() -> None:
    vector = """
        L k 1 0  ->  -
        L k 9 1  ->  k:9@1
        L k 2 2  ->  k:null@2
        L k 1 3  ->  -
        L k ~ 4  ->  -
    """

    run(table(lambda t: t.filter(lambda _, v: int(v) > 5), STORED), rows(vector))


def test_a_filter_that_was_described_before_its_table_got_a_store_stays_loud_until_it_is_asked() -> None:
    """The order of calls counts: the join stores L after the filter asked in vain (spec-joins 0.3)."""
    builder = StreamsBuilder()
    left = builder.table("L")
    left.filter(is_even).to_stream().to("out")
    left.join(builder.table("R"), lambda a, b: a)

    check(builder.build(), REJECTED)


def test_a_filter_that_was_described_after_the_join_that_stores_its_table_is_quiet() -> None:
    builder = StreamsBuilder()
    left = builder.table("L")
    left.join(builder.table("R"), lambda a, b: a)
    left.filter(is_even).to_stream().to("out")

    check(builder.build(), QUIET)


def test_a_filter_turns_quiet_when_someone_below_asks_it_for_old_values() -> None:
    builder = StreamsBuilder()
    filtered = builder.table("L").filter(is_even)
    filtered.to_stream().to("out")
    filtered.left_join(builder.table("R"), lambda a, b: a)

    check(builder.build(), QUIET)


def test_a_filter_with_a_store_reads_old_values_from_it_when_asked() -> None:
    builder = StreamsBuilder()
    filtered = builder.table("L").filter(is_even, materialized=STORED)
    filtered.to_stream().to("out")
    filtered.left_join(builder.table("R"), lambda a, b: a)

    check(builder.build(), QUIET)


def test_a_filter_with_a_store_keeps_the_rows_that_pass() -> None:
    with TopologyTestDriver(table(lambda t: t.filter(is_even, materialized=STORED))) as driver:
        for key, value in (("a", "2"), ("b", "3"), ("c", "4"), ("c", "5")):
            driver.input_topic("L").send(value, key=key, timestamp=1)
        store = driver.store("stored")

        assert list(store.all()) == [("a", "2")]


def test_neither_predicate_nor_mapper_is_called_for_deletions() -> None:
    def never(value: Any) -> Any:
        raise AssertionError(value)

    run(table(lambda t: t.filter(lambda _, v: never(v))), [("L k ~ 1", "k:null@1")])
    run(table(lambda t: t.map_values(never)), [("L k ~ 1", "k:null@1")])


def test_old_values_go_through_maps_and_filters_to_who_asks() -> None:
    """An outer join sends a change on a deletion only if there was a row before: it knows by the old value."""
    builder = StreamsBuilder()
    mapped = builder.table("L").map_values(lambda v: v + "!").filter(lambda _, v: v != "no!")
    mapped.left_join(builder.table("R"), lambda a, b: a).to_stream().to("out")
    vector = """
        L k ~ 1   ->  -
        L k a 2   ->  k:a!@2
        L k no 3  ->  k:null@3
        L k no 4  ->  -
        L k ~ 5   ->  -
    """

    run(builder.build(), rows(vector))


def test_late_rows_of_a_versioned_map_are_refused_once_and_go_no_further() -> None:
    topology = table(lambda t: t.map_values(lambda v: v, materialized=Materialized.versioned("m", history_retention=10)))
    vector = """
        L k a 100  ->  k:a@100
        L k b 89   ->  - #dropped+1
        L k c 90   ->  k:c@90
    """

    run(topology, rows(vector))


def test_types_alone_make_no_store() -> None:
    topology = table(lambda t: t.filter(is_even, materialized=Materialized.key_value(value=str)).map_values(len))

    assert dict(topology.stores) == {}


def test_names_are_kafkas() -> None:
    builder = StreamsBuilder()
    (
        builder.table("L")
        .filter(is_even)
        .filter(is_even, materialized=Materialized.key_value(value=str))
        .map_values(len, name="lengths")
        .to_stream()
        .to("out")
    )

    assert list(builder.build().nodes) == [
        "KSTREAM-SOURCE-0000000001",
        "KTABLE-SOURCE-0000000002",
        "KTABLE-FILTER-0000000003",
        "KTABLE-FILTER-0000000005",
        "lengths",
        "KTABLE-TOSTREAM-0000000007",
        "KSTREAM-SINK-0000000008",
    ]


def test_a_mapper_that_raises_is_named_or_skipped() -> None:
    def no(value: str) -> str:
        raise ZeroDivisionError(value)

    with TopologyTestDriver(table(lambda t: t.map_values(no, name="m"))) as driver:
        with pytest.raises(ProcessingError, match="'m' failed on key 'k'") as raised:
            driver.input_topic("L").send("a", key="k", timestamp=1)

        assert isinstance(raised.value.__cause__, ZeroDivisionError)

    with TopologyTestDriver(table(lambda t: t.map_values(no, name="m", on_error="skip"))) as driver:
        driver.input_topic("L").send("a", key="k", timestamp=1)
        driver.input_topic("L").send(None, key="k", timestamp=2)

        assert driver.output_topic("out").read_all() == [Record("k", None, 2)]
        assert driver.dropped == {("m", "error"): 1}


def test_a_table_as_a_stream_is_keyed_still() -> None:
    builder = StreamsBuilder()
    builder.table("L").to_stream().join(builder.table("R"), lambda a, b: a)

    assert dict(builder.build().channels) == {}
