"""transform_values of tables (spec-joins 2.1, vectors TO-11 to TO-13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from raystreams.stores.builders import Stores

from raystreams import Materialized, ProcessingError, RaystreamsError, Record, StreamsBuilder, Topology, TopologyTestDriver
from tests.operators.scenario import dashed, rows, run


class Named:
    """key/value, null as `null`."""

    def transform(self, key: str, value: str | None) -> str:
        return f"{key}/{'null' if value is None else value}"


def transformed(supplier: Callable[[], Any] = Named, **options: Any) -> Topology:
    builder = StreamsBuilder()
    builder.table("L").transform_values(supplier, **options).to_stream().to("out")
    return builder.build()


def test_to_11_a_transformer_sees_deletions_and_may_make_rows_of_them() -> None:
    vector = """
        L k 2 1  ->  k:k/2@1
        L k 1 2  ->  k:k/1@2
        L k 1 3  ->  k:k/1@3
        L k ~ 4  ->  k:k/null@4
        L k ~ 5  ->  k:k/null@5
        L k 4 6  ->  k:k/4@6
        L k 1 3  ->  k:k/1@3
    """

    run(transformed(), rows(vector))
    run(transformed(materialized=Materialized.key_value("stored")), rows(vector))


def joined(supplier: Callable[[], Any] = Named) -> Topology:
    builder = StreamsBuilder()
    builder.stream("S").left_join(builder.table("L").transform_values(supplier), dashed).to("out")
    return builder.build()


def test_to_12_a_look_up_transforms_also_where_there_is_no_row() -> None:
    vector = """
        S k a 1  ->  k:a-k/null@1
        L k x 2  ->  -
        S k b 3  ->  k:b-k/x@3
    """

    run(joined(), rows(vector))


def test_to_13_a_look_up_in_mapped_values_does_not() -> None:
    builder = StreamsBuilder()
    builder.stream("S").left_join(builder.table("L").map_values(lambda v: v + "!"), dashed).to("out")
    vector = """
        S k a 1  ->  k:a-null@1
        L k x 2  ->  -
        S k b 3  ->  k:b-x!@3
    """

    run(builder.build(), rows(vector))


def test_a_look_up_in_a_stored_transformation_reads_its_store() -> None:
    builder = StreamsBuilder()
    table = builder.table("L").transform_values(Named, materialized=Materialized.key_value("t"))
    builder.stream("S").left_join(table, dashed).to("out")
    vector = """
        S k a 1  ->  k:a-null@1
        L k x 2  ->  -
        S k b 3  ->  k:b-k/x@3
    """

    run(builder.build(), rows(vector))


COUNTS = Stores.key_value("counts", key=str, value=int)


class Counted:
    """How many changes its key has had, in a store that comes with it."""

    stores = (COUNTS,)

    def init(self, context: Any) -> None:
        self.context, self.counts = context, context.store(COUNTS)

    def transform(self, key: str, value: str | None) -> str | None:
        if self.context.source.topic is None:
            return f"{self.counts.get(key)}@{self.context.timestamp}"
        self.counts.put(key, (self.counts.get(key) or 0) + 1)
        return None if value is None else f"{value}#{self.counts.get(key)}@{self.context.timestamp}"


def test_a_transformer_brings_its_stores_and_sees_the_time_of_its_row() -> None:
    with TopologyTestDriver(transformed(Counted)) as driver:
        for value, timestamp in (("a", 5), (None, 6), ("b", 3)):
            driver.input_topic("L").send(value, key="k", timestamp=timestamp)

        assert driver.output_topic("out").read_values() == ["a#1@5", None, "b#3@3"]


def test_a_look_up_has_no_record_at_hand_and_the_time_of_the_row_above() -> None:
    with TopologyTestDriver(joined(Counted)) as driver:
        driver.input_topic("S").send("s", key="k", timestamp=9)
        driver.input_topic("L").send("a", key="k", timestamp=5)
        driver.input_topic("S").send("s", key="k", timestamp=9)

        assert driver.output_topic("out").read_values() == ["s-None@-1", "s-1@5"]


def test_old_values_are_transformed_too_unless_they_are_stored() -> None:
    calls: list[tuple[str, str | None]] = []

    class Logged(Named):
        def transform(self, key: str, value: str | None) -> str:
            calls.append((key, value))
            return super().transform(key, value)

    def called(materialized: Materialized[Any, Any] | None) -> list[tuple[str, str | None]]:
        builder = StreamsBuilder()
        table = builder.table("L").transform_values(Logged, materialized=materialized)
        table.left_join(builder.table("R"), dashed)
        calls.clear()
        with TopologyTestDriver(builder.build()) as driver:
            for value in ("a", "b"):
                driver.input_topic("L").send(value, key="k", timestamp=1)
        return list(calls)

    assert called(None) == [("k", "a"), ("k", None), ("k", "b"), ("k", "a")]
    assert called(Materialized.key_value("t")) == [("k", "a"), ("k", "b")]


def test_a_transformer_may_not_forward() -> None:
    class Forwards:
        def init(self, context: Any) -> None:
            self.context = context

        def transform(self, key: str, value: str) -> None:
            self.context.forward(Record(key, value, 1))

    with (
        TopologyTestDriver(transformed(Forwards, name="t")) as driver,
        pytest.raises(RaystreamsError, match="'t' is a transform_values and can't forward"),
    ):
        driver.input_topic("L").send("a", key="k", timestamp=1)


def test_each_task_has_transformers_of_its_own_which_are_closed() -> None:
    closed = []

    class Closes(Named):
        def close(self) -> None:
            closed.append(self)

    with TopologyTestDriver(joined(Closes)):
        pass

    assert len(set(map(id, closed))) == 2  # one for changes, one for look-ups


def test_what_is_no_transformer_is_refused_when_it_is_described() -> None:
    table = StreamsBuilder().table("L")
    one = Named()
    with pytest.raises(TypeError, match="needs a method 'transform'"):
        table.transform_values(lambda: object())
    with pytest.raises(ValueError, match="returned the same processor twice"):
        table.transform_values(lambda: one)


def test_a_transformer_that_raises_is_named() -> None:
    class Fails:
        def transform(self, key: str, value: str) -> str:
            raise KeyError(value)

    with (
        TopologyTestDriver(transformed(Fails, name="t")) as driver,
        pytest.raises(ProcessingError, match="'t' failed on key 'k' at time 7"),
    ):
        driver.input_topic("L").send("a", key="k", timestamp=7)


def test_an_unnamed_materialized_burns_no_number() -> None:
    topology = transformed(materialized=Materialized.key_value(value=str))

    assert "KTABLE-TRANSFORMVALUES-0000000003" in topology.nodes
    assert dict(topology.stores) == {}
