"""The join of a stream with a global table (spec-joins 6, vectors GT-01 to GT-03)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raystreams import Materialized, Record, StreamsBuilder, Topic, Topology, TopologyError, TopologyTestDriver
from tests.operators.scenario import columns, dashed, rows, run

METHODS = ("join", "left_join")


def after_bar(key: str | None, value: str) -> str | None:
    return value.split("|")[1] if "|" in value else None


def joined(
    method: str, *, selector: Callable[[Any, Any], Any] = after_bar, joiner: Callable[..., Any] = dashed, **options: Any
) -> Topology:
    builder = StreamsBuilder()
    table = builder.global_table("G")
    getattr(builder.stream("S"), method)(table, joiner, key_selector=selector, **options).to("out")
    return builder.build()


@pytest.mark.parametrize("column", [0, 1], ids=METHODS)
@pytest.mark.parametrize("partitions", [1, 3])
def test_gt_01_and_02(column: int, partitions: int) -> None:
    vector = r"""
        G f1 g1 1      | -                     | -
        S k a\|f1 5 h  | k:a\|f1-g1@5<h=h>     | same
        S k b\|f2 6    | -                     | k:b\|f2-null@6
        S k c 7        | - #dropped+1          | k:c-null@7
        S ~ d\|f1 8    | null:d\|f1-g1@8       | same
        S ~ e 9        | - #dropped+1          | null:e-null@9
        S k ~ 10       | - #dropped+1          | same
        G f1 ~ 11      | -                     | -
        S k f\|f1 2    | -                     | k:f\|f1-null@2
    """

    run(joined(METHODS[column]), columns(vector, column), partitions=partitions)


def test_gt_03_a_joiner_with_key_gets_the_streams_key() -> None:
    topology = joined(
        "join", selector=lambda k, v: "f1", joiner=lambda key, a, b: f"{key}:{dashed(a, b)}", with_key=True
    )

    run(topology, rows("""
        G f1 g 1  ->  -
        S k a 1   ->  k:k:a-g@1
    """))  # fmt: skip


def test_drops_say_why() -> None:
    with TopologyTestDriver(joined("join", name="j")) as driver:
        driver.input_topic("S").send(None, key="k", timestamp=1)
        driver.input_topic("S").send("no bar", key="k", timestamp=1)

        assert driver.dropped == {("j", "null value"): 1, ("j", "null key"): 1}


def test_the_selector_is_not_called_for_null_values() -> None:
    calls: list[Any] = []
    run(joined("left_join", selector=lambda k, v: calls.append(v)), [("S k ~ 1", "- #dropped+1"), ("S k v 2", "k:v-null@2")])

    assert calls == ["v"]


def test_nothing_is_routed_and_a_changed_key_stays_changed() -> None:
    builder = StreamsBuilder()
    table = builder.global_table("G")
    stream = builder.stream("S").select_key(lambda k, v: v).left_join(table, dashed, key_selector=lambda k, v: k)
    before = dict(builder.build().channels)
    stream.join(builder.table("T"), dashed, name="j")

    assert before == {}
    assert list(builder.build().channels) == ["j-repartition"]


def test_records_without_a_key_pass_a_repartition_above_a_left_join() -> None:
    def channel_join(method: str) -> Topology:
        builder = StreamsBuilder()
        table = builder.global_table("G")
        stream = builder.stream("S").repartition(name="r")
        getattr(stream, method)(table, dashed, key_selector=lambda k, v: "f").to("out")
        return builder.build()

    run(channel_join("left_join"), [("S ~ v 1", "null:v-null@1")])
    run(channel_join("join"), [("G f g 0", "-"), ("S ~ v 1", "-"), ("S k v 1", "k:v-g@1")])


def test_rows_are_found_on_every_partition() -> None:
    builder = StreamsBuilder()
    table = builder.global_table(Topic("G", key=int, value=str))
    orders = builder.stream(Topic("S", key=int, value=int))
    orders.join(table, lambda order, row: f"{order} {row}", key_selector=lambda key, order: order).to("out")
    with TopologyTestDriver(builder.build(), partitions=4) as driver:
        driver.input_topic("G").send("row", key=7, timestamp=1)
        for key in range(8):
            driver.input_topic("S").send(7, key=key, timestamp=2)

        assert driver.output_topic("out").read_table() == dict.fromkeys(range(8), "7 row")


def test_a_store_may_be_named_and_in_memory() -> None:
    builder = StreamsBuilder()
    table = builder.global_table("G", materialized=Materialized.in_memory("rows"))
    builder.stream("S").join(table, dashed, key_selector=lambda k, v: k).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("G").send("g", key="k", timestamp=1)
        driver.input_topic("S").send("s", key="k", timestamp=1)

        assert driver.store("rows").get("k") == "g"
        assert driver.output_topic("out").read_all() == [Record("k", "s-g", 1)]


def test_vs_16_a_global_table_can_not_be_versioned() -> None:
    with pytest.raises(TopologyError, match="can't be versioned"):
        StreamsBuilder().global_table("G", materialized=Materialized.versioned("g", history_retention=10))


def test_mistakes_are_refused_at_the_call() -> None:
    builder = StreamsBuilder()
    stream, table = builder.stream("S"), builder.global_table("G")
    with pytest.raises(ValueError, match="needs key_selector"):
        stream.join(table, dashed)  # type: ignore[call-overload]  # that is the point
    with pytest.raises(ValueError, match="has no index"):
        stream.join(table, dashed, table_foreign_key=lambda row: row)  # type: ignore[call-overload]  # that is the point
    with pytest.raises(ValueError, match="same StreamsBuilder"):
        StreamsBuilder().stream("S").join(table, dashed, key_selector=after_bar)


def test_the_prefix_is_kafkas_for_inner_joins_too() -> None:
    assert "KSTREAM-LEFTJOIN-0000000004" in joined("join").nodes
