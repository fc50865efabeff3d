"""Processors of the user's own, their context, and punctuation (spec-runtime 5, vectors L and M)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raystreams import (
    DeadLetter,
    Materialized,
    ProcessingError,
    RaystreamsError,
    Record,
    StoreError,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyError,
    TopologyTestDriver,
)

Context = Any


class Base:
    """Keeps its context."""

    context: Context

    def init(self, context: Context) -> None:
        self.context = context


class Double(Base):
    """Forwards each record twice, the second time a millisecond later."""

    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record)
        self.context.forward(record.with_timestamp(record.timestamp + 1).with_value(record.value * 2))


def topology(supplier: Callable[[], Any], **options: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").process(supplier, **options).to("out", name="sink")
    return builder.build()


def outputs(driver: TopologyTestDriver, topic: str = "out") -> list[tuple[Any, Any, int]]:
    return [(r.key, r.value, r.timestamp) for r in driver.output_topic(topic).read_all()]


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


# ---- punctuation


def scheduled(interval: int, clock: str, until: int | None = None) -> Topology:
    """A processor that forwards the times at which it is called; it cancels itself after `until` calls."""

    class Clock(Base):
        def init(self, context: Context) -> None:
            self.calls = 0
            self.context = context
            self.schedule = context.schedule(interval, self.call, clock=clock)

        def call(self, now: int) -> None:
            self.calls += 1
            if self.calls == until:
                self.schedule.cancel()
            self.context.forward(Record("fired", now, now))

        def process(self, record: Record[str, Any]) -> None: ...

    return topology(Clock)


@pytest.mark.parametrize(
    ("times", "fired"),
    [
        ([42, 42, 51, 52, 61, 65, 71, 72, 95, 101, 102], [42, 51, 61, 71, 95, 101]),
        ([20, 25, 142, 145, 155, 159, 160, 161], [20, 142, 155, 160]),
    ],
    ids=["L1", "L2"],
)
def test_stream_time_schedules_keep_to_their_grid(times: list[int], fired: list[int]) -> None:
    with TopologyTestDriver(scheduled(10, "stream")) as driver:
        for time in times:
            driver.input_topic("in").send("x", key="k", timestamp=time)

        assert outputs(driver) == [("fired", time, time) for time in fired]


@pytest.mark.parametrize(
    ("steps", "fired"),
    [
        ([5, 9, 1, 20, 5], [14, 35, 40]),
        ([10, 10, 9, 1, 20, 0], [10, 20, 30, 50]),
        ([100, 10, 12, 7, 1, 105, 5], [100, 110, 122, 130, 235, 240]),
    ],
    ids=["L3", "L4", "L5"],
)
def test_wall_clock_schedules_begin_one_interval_after_the_start(steps: list[int], fired: list[int]) -> None:
    with TopologyTestDriver(scheduled(10, "wall"), wall_clock=0) as driver:
        for step in steps:
            driver.advance_wall_clock(step)

        assert outputs(driver) == [("fired", time, time) for time in fired]


def test_l6_missed_intervals_collapse_into_one_call() -> None:
    with TopologyTestDriver(scheduled(100, "wall"), wall_clock=0) as driver:
        now = 0
        for check in (99, 100, 199, 200, 1001, 1002, 1100):
            driver.advance_wall_clock(check - now)
            now = check

        assert [time for _, time, _ in outputs(driver)] == [100, 200, 1001, 1100]


def test_l7_a_schedule_that_cancels_itself_fires_once() -> None:
    with TopologyTestDriver(scheduled(10, "stream", until=1)) as driver:
        for time in (10, 20, 30):
            driver.input_topic("in").send("x", key="k", timestamp=time)

        assert outputs(driver) == [("fired", 10, 10)]


def test_b44_a_punctuator_has_no_record_and_leaks_none() -> None:
    class Late(Base):
        def init(self, context: Context) -> None:
            self.context = context
            context.schedule(10, self.call)

        def call(self, now: int) -> None:
            self.context.forward(Record("p", list(self.context.source), self.context.stream_time))

        def process(self, record: Record[str, Any]) -> None: ...

    with TopologyTestDriver(topology(Late)) as driver:
        driver.input_topic("in").send("x", key="k", timestamp=50, headers={"h": b"1"})

        assert driver.output_topic("out").read_all() == [Record("p", [None, -1, -1], 50)]


def test_a_schedule_needs_an_interval_and_a_known_clock() -> None:
    for interval, clock, match in ((0, "stream", "at least 1 ms"), (5, "moon", "'stream' or 'wall'")):
        with pytest.raises((ValueError, ProcessingError), match=match), TopologyTestDriver(scheduled(interval, clock)):
            pass


# ---- errors


class Picky(Base):
    """Forwards, then fails on odd numbers."""

    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record)
        if record.value % 2:
            raise ValueError(f"{record.value} is odd")


def test_m1_skipped_failures_are_counted_and_what_was_forwarded_stays() -> None:
    with TopologyTestDriver(topology(Picky, name="picky", on_error="skip")) as driver:
        for value in range(6):
            driver.input_topic("in").send(value, key="k", timestamp=value)

        assert driver.output_topic("out").read_values() == [0, 1, 2, 3, 4, 5]
        assert dict(driver.dropped) == {("picky", "error"): 3}


def test_m2_a_failure_names_operator_topic_partition_key_and_time_and_keeps_its_cause() -> None:
    with TopologyTestDriver(topology(Picky, name="picky")) as driver:
        with pytest.raises(ProcessingError, match="'picky' failed on key 'k' at time 5") as caught:
            driver.input_topic("in").send(1, key="k", timestamp=5)

        error = caught.value
        assert (error.operator, error.topic, error.partition, error.key, error.timestamp) == ("picky", "in", 0, "k", 5)
        assert isinstance(error.__cause__, ValueError)


def test_failures_may_go_to_a_topic_of_their_own() -> None:
    with TopologyTestDriver(topology(Picky, name="picky", on_error=DeadLetter("failed"))) as driver:
        driver.input_topic("in").send(1, key="k", timestamp=5, headers={"h": b"1"})

        (dead,) = driver.output_topic("failed").read_all()
        assert (dead.key, dead.value, dead.timestamp) == ("k", 1, 5)
        assert dead.headers["h"] == b"1"
        assert b"1 is odd" in dead.headers["error"]


def test_a_failure_below_is_not_the_processors_own() -> None:
    def fail(value: int) -> int:
        raise KeyError(value)

    builder = StreamsBuilder()
    below = builder.stream("in").process(Double, name="above", on_error="skip")
    below.map_values(fail, name="below", on_error="fail").to("out")

    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(ProcessingError, match="'below'") as caught:
            driver.input_topic("in").send(1, key="k", timestamp=5)

        assert isinstance(caught.value.__cause__, KeyError)


def test_suppliers_are_checked_when_they_are_given() -> None:
    stream = StreamsBuilder().stream("in")
    one = Double()

    async def process() -> None: ...

    with pytest.raises(TypeError, match="callable"):
        stream.process(one)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="same processor twice"):
        stream.process(lambda: one)
    with pytest.raises(TypeError, match="'process'"):
        stream.process(dict)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="async def"):
        stream.process(process)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="list of stores"):
        stream.process(Double, stores="counts")
    with pytest.raises(TypeError, match="name, a Stores"):
        stream.process(Double, stores=[7])  # type: ignore[list-item]


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
