"""Processors of the user's own, and their context (spec-runtime 5)."""

from __future__ import annotations

from typing import Any

import pytest

from raystreams import (
    Materialized,
    ProcessingError,
    RaystreamsError,
    Record,
    StoreError,
    Stores,
    StreamsBuilder,
    TopologyError,
    TopologyTestDriver,
)
from tests.operators.processors import Base, Context, Double, outputs, topology


def test_a_processor_forwards_any_number_of_records() -> None:
    with TopologyTestDriver(topology(Double)) as driver:
        driver.input_topic("in").send(3, key="k", timestamp=10, headers={"h": b"1"})

        assert driver.output_topic("out").read_all() == [
            Record("k", 3, 10, {"h": b"1"}), Record("k", 6, 11, {"h": b"1"})
        ]  # fmt: skip


def test_null_keys_and_values_are_given_to_it() -> None:
    class Echo(Base):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record)

    with TopologyTestDriver(topology(Echo)) as driver:
        driver.input_topic("in").send(None, key=None, timestamp=1)

        assert outputs(driver) == [(None, None, 1)]


def test_init_and_close_are_called_once_a_task_and_are_optional() -> None:
    calls: list[str] = []

    class Counted(Base):
        def init(self, context: Context) -> None:
            calls.append(f"init {context.partition}")

        def process(self, record: Record[Any, Any]) -> None: ...

        def close(self) -> None:
            calls.append("close")

    class Bare:
        def process(self, record: Record[Any, Any]) -> None: ...

    with TopologyTestDriver(topology(Counted), partitions=2):
        assert calls == ["init 0", "init 1"]
    assert calls[2:] == ["close", "close"]
    with TopologyTestDriver(topology(Bare)) as driver:
        driver.input_topic("in").send(1, key="k", timestamp=1)


def test_one_processor_that_can_not_be_closed_keeps_no_other_from_it() -> None:
    calls: list[int] = []

    class Stubborn(Base):
        def process(self, record: Record[Any, Any]) -> None: ...

        def close(self) -> None:
            calls.append(self.context.partition)
            raise OSError("busy")

    builder = StreamsBuilder()
    for name in ("one", "two"):
        builder.stream("in").process(Stubborn, name=name)
    with pytest.raises(OSError, match="busy"), TopologyTestDriver(builder.build()):
        pass

    assert calls == [0, 0]


def test_close_is_called_after_an_init_that_failed() -> None:
    calls: list[str] = []

    class Failing(Base):
        def init(self, context: Context) -> None:
            raise KeyError("no model")

        def process(self, record: Record[Any, Any]) -> None: ...

        def close(self) -> None:
            calls.append("close")

    with pytest.raises(ProcessingError, match="no model"), TopologyTestDriver(topology(Failing)):
        pass

    assert calls == ["close"]


def test_children_are_called_in_order_and_by_name() -> None:
    class Sorted(Base):
        def process(self, record: Record[str, Any]) -> None:
            if record.value == "unknown":
                self.context.forward(record, to="third")
            elif record.value == "all":
                self.context.forward(record)
            else:
                self.context.forward(record, to=record.value)

    builder = StreamsBuilder()
    made = builder.stream("in").process(Sorted, name="sorter")
    for name in ("first", "second"):
        made.map_values(lambda value, name=name: f"{value} {name}", name=name).to("out")

    with TopologyTestDriver(builder.build()) as driver:
        for value in ("second", "all", "first"):
            driver.input_topic("in").send(value, key="k", timestamp=1)
        found = driver.output_topic("out").read_values()
        assert found == ["second second", "all first", "all second", "first first"]

        with pytest.raises(RaystreamsError, match=r"'third' comes after 'sorter'.*'first', 'second'"):
            driver.input_topic("in").send("unknown", key="k", timestamp=1)


COUNTS = Stores.key_value("counts", key=str, value=int)


class Count(Base):
    """Counts by key, in a store that it brings."""

    stores: tuple[Any, ...] = (COUNTS,)

    def process(self, record: Record[str, Any]) -> None:
        if record.key is None:
            return self.context.forward(record)
        store = self.context.store(COUNTS)
        store.put(record.key, (store.get(record.key) or 0) + 1)
        self.context.forward(record.with_value(store.get(record.key)))


@pytest.mark.parametrize("way", ["declared", "builder", "name"])
def test_stores_are_connected_by_declaration_builder_or_name(way: str) -> None:
    class Plain(Count):
        stores = ()

    builder = StreamsBuilder()
    stream = builder.stream("in")
    if way == "declared":
        made = stream.process(Count)
    elif way == "builder":
        made = stream.process(Plain, stores=[COUNTS])
    else:
        builder.add_state_store(COUNTS)
        made = stream.process(Plain, stores=["counts"])
    made.to("out")

    with TopologyTestDriver(builder.build()) as driver:
        for key in ("a", "b", "a"):
            driver.input_topic("in").send("x", key=key, timestamp=1)

        assert driver.output_topic("out").read_values() == [1, 1, 2]
        assert driver.store(COUNTS).get("a") == 2


def test_a_tables_store_is_read_without_timestamps_through_its_materialized() -> None:
    users = Materialized.key_value("users", key=str, value=str)

    class Lookup(Base):
        def process(self, record: Record[str, Any]) -> None:
            self.context.forward(record.with_value(self.context.store(users).get(record.key)))

    builder = StreamsBuilder()
    builder.table("users", materialized=users)
    builder.stream("in").process(Lookup, stores=[users]).to("out")

    with TopologyTestDriver(builder.build(), partitions=3) as driver:
        driver.input_topic("users").send("Ada", key="a", timestamp=1)
        driver.input_topic("in").send("x", key="a", timestamp=2)

        assert outputs(driver) == [("a", "Ada", 2)]


@pytest.mark.parametrize(
    "users", [Materialized.key_value("users"), Materialized.versioned("users", history_retention=100)], ids=["rows", "versions"]
)
def test_a_tables_store_is_not_written_by_others(users: Materialized[Any, Any]) -> None:
    class Writer(Base):
        def process(self, record: Record[str, Any]) -> None:
            self.context.store("users").put(record.key, "x", 1)

    builder = StreamsBuilder()
    builder.table("users", materialized=users)
    builder.stream("in").process(Writer, stores=["users"])

    with TopologyTestDriver(builder.build()) as driver, pytest.raises(StoreError, match="belongs to a table"):
        driver.input_topic("in").send("x", key="a", timestamp=2)


def test_a_store_that_was_not_connected_is_refused() -> None:
    class Curious(Base):
        def process(self, record: Record[str, Any]) -> None:
            self.context.store("counts")

    builder = StreamsBuilder()
    builder.add_state_store(COUNTS).stream("in").process(Curious)
    builder.stream("in").process(Count)
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(RaystreamsError, match=r"no access to the store 'counts'.*stores=\['counts'\]"),
    ):
        driver.input_topic("in").send("x", key="a", timestamp=1)


def test_a_store_that_was_never_added_is_a_topology_error() -> None:
    builder = StreamsBuilder()
    builder.stream("in").process(Double, stores=["nowhere"])

    with pytest.raises(TopologyError, match="nowhere"):
        builder.build()


def test_state_of_a_processor_survives_a_crash_and_counts_once() -> None:
    with TopologyTestDriver(topology(Count), auto_commit=False) as driver:
        driver.input_topic("in").send("x", key="a", timestamp=1)
        driver.commit()
        driver.input_topic("in").send("x", key="a", timestamp=2)
        driver.crash()
        driver.commit()

        assert outputs(driver) == [("a", 1, 1), ("a", 2, 2)]


def test_the_key_counts_as_changed_after_process_and_not_after_process_values() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.process(Double).group_by_key().count().to_stream().to("out")
    changed = builder.build()
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.process_values(Double).group_by_key().count().to_stream().to("out")

    assert len(changed.channels) == 1
    assert len(builder.build().channels) == 0


def test_a_processor_with_stores_gets_its_records_where_their_keys_belong() -> None:
    builder = StreamsBuilder()
    builder.stream("in").select_key(lambda key, value: value).process(Count).to("out")

    with TopologyTestDriver(builder.build(), partitions=4) as driver:
        for key in "abcdef":
            driver.input_topic("in").send("x", key=key, timestamp=1)
        driver.input_topic("in").send(None, key="a", timestamp=1)

        assert outputs(driver) == [*(("x", n, 1) for n in range(1, 7)), (None, None, 1)]


def test_process_values_may_not_change_the_key() -> None:
    class Rekey(Base):
        def process(self, record: Record[str, Any]) -> None:
            self.context.forward(record.with_key(record.value))

    builder = StreamsBuilder()
    builder.stream("in").process_values(Rekey, name="fixed").to("out")

    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("in").send("k", key="k", timestamp=1)
        assert outputs(driver) == [("k", "k", 1)]
        with pytest.raises(ProcessingError, match=r"'fixed'.*may not change keys"):
            driver.input_topic("in").send("other", key="k", timestamp=1)


def test_the_context_tells_times_partition_and_origin() -> None:
    class Report(Base):
        def process(self, record: Record[str, Any]) -> None:
            context = self.context
            at = context.source
            told = [context.stream_time, context.wall_time, context.partition, at.topic, at.partition]
            context.forward(record.with_value(told))

    with TopologyTestDriver(topology(Report), wall_clock=500) as driver:
        driver.input_topic("in").send("x", key="a", timestamp=7)
        driver.advance_wall_clock(1)
        driver.input_topic("in").send("x", key="a", timestamp=3)

        assert driver.output_topic("out").read_values() == [[7, 500, 0, "in", 0], [7, 501, 0, "in", 0]]


def test_a_negative_timestamp_can_not_be_forwarded() -> None:
    class Back(Base):
        def process(self, record: Record[str, Any]) -> None:
            self.context.forward(record.with_timestamp(-1))

    with TopologyTestDriver(topology(Back)) as driver, pytest.raises(ProcessingError, match="negative"):
        driver.input_topic("in").send("x", key="a", timestamp=7)


# ---- global stores


NAMES = Stores.key_value("names", key=str, value=str)


class KeepUpper(Base):
    """Keeps the names in capitals."""

    def process(self, record: Record[str, str | None]) -> None:
        self.context.store(NAMES).put(record.key, record.value.upper() if record.value else None)


class NameOf(Base):
    def process(self, record: Record[str, Any]) -> None:
        self.context.forward(record.with_value(self.context.store(NAMES).get(record.value)))


def test_a_global_store_is_kept_by_its_processor_and_read_in_every_partition() -> None:
    builder = StreamsBuilder()
    builder.add_global_store(NAMES, "names", KeepUpper)
    builder.stream("in").process(NameOf).to("out")

    with TopologyTestDriver(builder.build(), partitions=3) as driver:
        driver.input_topic("names").send("ada", key="a", timestamp=1)
        for key in "xyz":
            driver.input_topic("in").send("a", key=key, timestamp=2)

        assert driver.output_topic("out").read_values() == ["ADA", "ADA", "ADA"]


def test_only_its_own_processor_writes_a_global_store_and_that_does_nothing_else() -> None:
    class Writer(Base):
        def process(self, record: Record[str, Any]) -> None:
            self.context.store(NAMES).put("a", "b")

    class Forwarder(Base):
        def process(self, record: Record[str, Any]) -> None:
            self.context.forward(record)

    builder = StreamsBuilder()
    builder.add_global_store(NAMES, "names", Forwarder, name="keeper")
    builder.stream("in").process(Writer)

    with TopologyTestDriver(builder.build()) as driver, pytest.raises(StoreError, match="read only"):
        driver.input_topic("in").send("x", key="a", timestamp=1)
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(RaystreamsError, match="can't forward"):
        driver.input_topic("names").send("x", key="a", timestamp=1)
    with pytest.raises(ValueError, match="stores of its own"):
        builder.add_global_store(NAMES, "other", Count)
