"""Aggregations of grouped tables: rows move between groups (spec-runtime 2.3, 2.5; field report B14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from raystreams.operators.grouped_table import KGroupedTable

from raystreams import (
    KTable,
    Materialized,
    ProcessingError,
    StreamsBuilder,
    Suppressed,
    Topology,
    TopologyError,
    TopologyTestDriver,
)
from tests.operators.aggregation_texts import drops, minus, plus, read, send, sent, texts
from tests.operators.delayed import DelayedDriver
from tests.operators.runtime_vectors import by_value, topology
from tests.operators.scenario import Scenario, rows, run

VERSIONED = Materialized.versioned("history", history_retention=1000)


def by_group(key: str, row: dict[str, Any]) -> tuple[str, int]:
    return row["g"], row["v"]


def sums(table: KTable[Any, Any], **options: Any) -> KTable[Any, Any]:
    return table.group_by(by_group, key=str, value=int).reduce(lambda a, b: a + b, lambda a, b: a - b, **options)


def put(driver: TopologyTestDriver, key: str, group: str | None, value: int, time: int) -> str:
    """Put a row, or delete it; returns what came out."""
    row = None if group is None else {"g": group, "v": value}
    driver.input_topic("in").send(row, key=key, timestamp=time)
    return read(driver)


@pytest.mark.parametrize("partitions", [1, 2, 4, 5])
def test_b14_one_output_for_one_update_and_two_when_the_group_changes(partitions: int) -> None:
    kept = Materialized.key_value("store")
    with TopologyTestDriver(topology(lambda b: sums(b.table("in"), materialized=kept)), partitions=partitions) as driver:
        assert put(driver, "k", "A", 1, 0) == "A=1@0"
        assert put(driver, "k", "A", 3, 1) == "A=3@1"
        assert sorted(put(driver, "k", "B", 3, 2).split()) == ["A=0@2", "B=3@2"]
        assert put(driver, "k", None, 0, 3) == "B=0@3"
        assert dict(driver.store("store").all()) == {"A": 0, "B": 0}


def test_what_a_row_was_is_taken_away_before_what_it_is_is_added() -> None:
    described = topology(lambda b: b.table("in").group_by(lambda k, v: ("g", v)).aggregate(lambda: "", plus, minus))
    with TopologyTestDriver(described) as driver:
        assert sent(driver, "a:1@1 a:2@2 b:3@3 a:null@4") == "g=+1@1 g=+1-1+2@2 g=+1-1+2+3@3 g=+1-1+2+3-2@4"


def grouped_rows(source: Materialized[Any, Any] | None) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("L", materialized=source).group_by(lambda key, value: ("g", value))
    table.reduce(lambda a, b: f"{a}+{b}", lambda a, b: f"{a}-{b}").to_stream().to("out")
    return builder.build()


def test_pk_31_and_vs_15_what_is_older_than_a_versioned_row_changes_no_group() -> None:
    with Scenario(grouped_rows(VERSIONED)) as scenario:
        scenario.check(
            rows("""
            L k v1 1  -> g:v1@1
            L k v2 10 -> g:v1-v1+v2@10
            L k v3 5  -> -
            L k v4 12 -> g:v1-v1+v2-v2+v4@12
        """)
        )

        assert drops(scenario.driver) == 0


def test_pk_32_without_versions_it_replaces_the_row() -> None:
    run(
        grouped_rows(None),
        rows("""
            L k v1 1  -> g:v1@1
            L k v2 10 -> g:v1-v1+v2@10
            L k v3 5  -> g:v1-v1+v2-v2+v3@10
        """),
    )


def test_a_record_of_the_very_time_of_a_versioned_row_is_the_latest() -> None:
    run(
        grouped_rows(VERSIONED),
        rows("""
            L k v1 10 -> g:v1@10
            L k v2 10 -> g:v1-v1+v2@10
            L k ~ 20  -> g:v1-v1+v2-v2@20
            L k v3 15 -> -
            L k v4 20 -> g:v1-v1+v2-v2+v4@20
        """),
    )


def test_h5_sets_that_lose_their_last_member() -> None:
    def united(key: str, new: str, members: list[str]) -> list[str]:
        return sorted({*members, new})

    def without(key: str, old: str, members: list[str]) -> list[str]:
        return [member for member in members if member != old]

    described = topology(lambda b: b.table("in").group_by(lambda k, v: ("g", v)).aggregate(list, united, without))
    with TopologyTestDriver(described) as driver:
        assert sent(driver, "k:a@10 k:b@15 k:null@12") == "g=['a']@10 g=['b']@15 g=[]@15"


def test_h6_the_old_values_of_a_table_that_is_grouped_are_what_was_there() -> None:
    changes: list[tuple[str, Any, Any]] = []

    def seen(key: str, value: str) -> tuple[str, str]:
        changes.append((key, value, None))
        return key, value

    described = topology(lambda b: b.table("in").group_by(seen).aggregate(lambda: "", plus, minus))
    with TopologyTestDriver(described) as driver:
        text = sent(driver, "A:01@10 B:01@20 C:01@15 A:02@8 B:02@22 A:03@12 A:null@15 B:null@20")

        assert text == (
            "A=+01@10 B=+01@20 C=+01@15 A=+01-01+02@10 B=+01-01+02@22 A=+01-01+02-02+03@12 "
            "A=+01-01+02-02+03-03@15 B=+01-01+02-02@22"
        )


def test_h8_an_equal_value_is_passed_on_again() -> None:
    with TopologyTestDriver(topology(lambda b: b.table("in").group_by(by_value).count())) as driver:
        assert sent(driver, "k:a@1 k:a@2") == "a=1@1 a=1@2"


@pytest.mark.parametrize(
    ("source", "result", "outputs"),
    [
        (None, None, ""),
        (VERSIONED, None, "A=null@1 B=null@2 C=null@3"),
        (None, Materialized.versioned("result", history_retention=1000), ""),
    ],
    ids=["unversioned", "versioned above", "versioned below"],
)
def test_h7_a_filter_that_keeps_nothing_is_silent_unless_versions_need_it(
    source: Materialized[Any, Any] | None, result: Materialized[Any, Any] | None, outputs: str
) -> None:
    builder = StreamsBuilder()
    filtered = builder.table("in", materialized=source).filter(lambda key, value: value != "reject")
    filtered.group_by(by_value).count(materialized=result)
    filtered.to_stream().to("out")

    with TopologyTestDriver(builder.build()) as driver:
        assert sent(driver, "A:reject@1 B:reject@2 C:reject@3") == outputs


def moving(key: str, value: str) -> tuple[str, str] | None:
    return None if value == "none" else (value[0], value)


def test_a_row_without_a_group_is_in_none() -> None:
    described = topology(lambda b: b.table("in").group_by(moving).count())
    with TopologyTestDriver(described) as driver:
        assert sent(driver, "k:a1@1 n:none@2 k:none@3 k:b1@4") == "a=1@1 a=0@3 b=1@4"
        assert drops(driver) == 0


def test_a_subtractor_that_returns_none_lets_the_adder_begin_anew() -> None:
    described = topology(
        lambda b: b.table("in").group_by(lambda k, v: ("g", v)).aggregate(lambda: "0", plus, lambda key, old, aggregate: None)
    )
    with TopologyTestDriver(described) as driver:
        assert sent(driver, "k:a@5 k:b@3 k:null@4 k:c@1") == "g=0+a@5 g=0+b@5 g=null@5 g=0+c@1"


def test_a_reduce_whose_subtractor_returns_none_takes_the_new_value_at_its_time() -> None:
    described = topology(lambda b: b.table("in").group_by(lambda k, v: ("g", v)).reduce(lambda a, b: a + b, lambda a, b: None))
    with TopologyTestDriver(described) as driver:
        assert sent(driver, "k:a@5 k:b@3 n:c@1 k:null@9 k:d@2") == "g=a@5 g=b@5 g=bc@5 g=null@9 g=d@2"


def test_a_subtraction_without_an_aggregate_is_skipped_and_the_addition_still_done() -> None:
    def adder(key: str, new: str, aggregate: str) -> str | None:
        return None if new == "x" else aggregate + new

    described = topology(lambda b: b.table("in").group_by(lambda k, v: ("g", v)).aggregate(lambda: "", adder, minus))
    with TopologyTestDriver(described) as driver:
        assert sent(driver, "k:x@5 k:a@6") == "g=null@5 g=a@6"


@pytest.mark.parametrize("forgetting", ["adder", "subtractor"])
def test_a_function_that_changes_and_forgets_to_return_is_told(forgetting: str) -> None:
    def adder(key: str, new: str, values: list[str]) -> Any:
        values.append(new)
        return None if forgetting == "adder" and len(values) > 1 else values

    def subtractor(key: str, old: str, values: list[str]) -> Any:
        values.remove(old)
        return None if forgetting == "subtractor" else values

    described = topology(lambda b: b.table("in").group_by(lambda k, v: ("g", v)).aggregate(list, adder, subtractor, name="sum"))
    with TopologyTestDriver(described) as driver, pytest.raises(ProcessingError, match=r"'sum'.*TypeError"):
        send(driver, "k:a@1 n:b@1 k:c@1")


def test_a_subtractor_that_has_taken_the_last_thing_out_may_return_none() -> None:
    def subtractor(key: str, old: str, values: list[str]) -> list[str] | None:
        values.remove(old)
        return values or None

    described = topology(
        lambda b: (
            b.table("in").group_by(lambda k, v: ("g", v)).aggregate(list, lambda key, new, values: [*values, new], subtractor)
        )
    )
    with TopologyTestDriver(described) as driver:
        assert sent(driver, "k:a@1 k:null@2") == "g=['a']@1 g=null@2"


def test_a_group_that_moves_may_be_seen_in_none_and_never_in_both() -> None:
    topology_ = topology(lambda b: b.table("in").group_by(by_value).count())
    driver = DelayedDriver(topology_, 3)
    driver.send("in", "k", "a", 1)
    driver.deliver_all()
    driver.outputs.clear()
    driver.send("in", "k", "b", 2)
    driver.deliver_all(lambda edges: edges[-1])

    assert sorted(texts(driver.outputs).split()) == ["a=0@2", "b=1@2"]


def test_one_group_feeds_several_aggregations_over_one_channel_if_it_has_a_name() -> None:
    def shape(builder: StreamsBuilder) -> KGroupedTable[Any, Any]:
        return builder.table("in").group_by(by_value, name="groups")

    builder = StreamsBuilder()
    grouped = shape(builder)
    grouped.count().to_stream().to("out")
    grouped.aggregate(lambda: "", plus, minus).to_stream().to("texts")
    topology_ = builder.build()

    assert list(topology_.channels) == ["groups-repartition"]
    with TopologyTestDriver(topology_) as driver:
        assert sent(driver, "k:a@1 n:a@2") == "a=1@1 a=2@2"
        assert texts(driver.output_topic("texts").read_all()) == "a=+a@1 a=+a+a@2"


# ---- tables from streams, and what may be suppressed


def to_table(selector: Callable[[Any, Any], Any] | None = None) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("L")
    if selector is not None:
        stream = stream.select_key(selector)
    stream.to_table().to_stream().to("out")
    return builder.build()


def test_to_14_a_stream_as_a_table() -> None:
    run(
        to_table(),
        rows("""
            L k a 5 -> k:a@5
            L ~ b 6 -> - #dropped+1
            L k ~ 7 -> k:null@7
            L k c 3 -> k:c@3
        """),
    )


def test_to_15_after_a_change_of_the_key_null_keys_go_silently() -> None:
    run(
        to_table(lambda key, value: None if value in (None, "drop") else key),
        rows("""
            L k a 5    -> k:a@5
            L k drop 6 -> -
            L k ~ 7    -> -
            L k c 3    -> k:c@3
        """),
    )


def suppressed(shape: Callable[[KTable[Any, Any]], KTable[Any, Any]], wait: int = 4) -> Topology:
    builder = StreamsBuilder()
    shape(builder.table("L", materialized=VERSIONED)).suppress(Suppressed.until_time_limit(wait)).to_stream().to("out")
    return builder.build()


def test_to_16_and_17_a_versioned_table_can_not_be_suppressed_nor_what_inherits_it() -> None:
    with pytest.raises(TopologyError, match="versioned"):
        suppressed(lambda table: table)
    with pytest.raises(TopologyError, match="versioned"):
        suppressed(lambda table: table.map_values(lambda value: value).filter(lambda key, value: True))


def test_to_18_and_19_it_can_without_versions() -> None:
    vector = rows("""
        L k a 1 -> -
        L k b 5 -> k:b@5
    """)

    run(suppressed(lambda table: table.map_values(lambda v: v, materialized=Materialized.key_value("plain"))), vector)
    run(suppressed(lambda table: table.to_stream().to_table(), wait=1), vector)


def test_to_20_final_results_need_windows() -> None:
    table = StreamsBuilder().table("L")

    with pytest.raises(TopologyError, match="needs a windowed aggregation"):
        table.suppress(Suppressed.until_window_closes())
