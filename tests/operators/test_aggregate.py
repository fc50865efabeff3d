"""Aggregations of streams without windows (spec-runtime 2.1, 2.2): what the user's functions get and may return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raystreams import (
    KTable,
    Materialized,
    ProcessingError,
    Record,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)
from tests.operators.aggregation_texts import drops, plus, read, send, sent, zero
from tests.operators.runtime_vectors import Shape, grouped, topology


def drop_on(word: str) -> Callable[[Any, Any, str], str | None]:
    """An aggregator that deletes when a value comes."""
    return lambda key, value, aggregate: None if value == word else plus(key, value, aggregate)


WINDOWS: dict[str, Any] = {"tumbling": TimeWindows(10), "sliding": SlidingWindows(10), "sessions": SessionWindows(10)}


def by_windows(kind: str, initializer: Callable[[], Any], aggregator: Callable[..., Any], merger: Any = None) -> Shape:
    """An aggregation by a kind of windows, or without."""

    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        if kind == "none":
            return grouped(builder).aggregate(initializer, aggregator, name="sum")
        windowed: Any = grouped(builder).windowed_by(WINDOWS[kind])
        mergers = [merger or (lambda key, a, b: a + b)] if kind == "sessions" else []
        return windowed.aggregate(initializer, aggregator, *mergers, name="sum")  # type: ignore[no-any-return]  # of any windows

    return shape


KINDS = pytest.mark.parametrize("kind", ["none", *WINDOWS])


def test_none_deletes_the_row_and_the_next_record_begins_anew() -> None:
    described = topology(lambda b: grouped(b).aggregate(zero, drop_on("x"), materialized=Materialized.key_value("store")))
    with TopologyTestDriver(described) as driver:
        assert sent(driver, "k:a@5 k:x@3 k:x@4 k:b@1") == "k=0+a@5 k=null@5 k=null@4 k=0+b@1"

        assert dict(driver.store("store").all()) == {"k": "0+b"}


def test_b42_a_reducer_that_returns_none_deletes_and_the_serde_never_sees_none() -> None:
    class Strict:
        def encode(self, value: str) -> bytes:
            assert isinstance(value, str)
            return value.encode()

        def decode(self, data: bytes) -> str:
            return data.decode()

    builder = StreamsBuilder()
    kept = Materialized.key_value("store", value=Strict())
    stream: Any = builder.stream("in").group_by_key()
    stream.reduce(lambda a, b: None if b == "x" else a + b, materialized=kept).to_stream().to("out")
    with TopologyTestDriver(builder.build(), auto_commit=False) as driver:
        send(driver, "k:a@1 k:b@2 k:x@3")
        driver.commit()
        driver.crash()
        send(driver, "k:c@4 n:d@5 n:x@6")
        driver.commit()

        assert read(driver) == "k=a@1 k=ab@2 k=null@3 k=c@4 n=d@5 n=null@6"
        assert dict(driver.store("store").all()) == {"k": "c"}


def test_the_first_value_of_a_reduce_is_taken_without_a_call() -> None:
    calls: list[tuple[str, str]] = []

    def reducer(a: str, b: str) -> str:
        calls.append((a, b))
        return a + b

    with TopologyTestDriver(topology(lambda b: grouped(b).reduce(reducer))) as driver:
        assert sent(driver, "k:a@9 k:b@3") == "k=a@9 k=ab@9"
        assert calls == [("a", "b")]


@KINDS
def test_h10_null_values_are_dropped_or_given_to_the_aggregator(kind: str) -> None:
    with TopologyTestDriver(topology(by_windows(kind, zero, plus, lambda key, a, b: a + b))) as driver:
        send(driver, "k:null@15")

        if kind in ("none", "sliding"):
            assert (read(driver), driver.dropped) == ("", {("sum", "null value"): 1})
        else:
            assert read(driver).partition("=")[2].partition("@")[0] == "0+None"
            assert drops(driver) == 0


@KINDS
def test_a_null_key_is_dropped_under_the_operators_name(kind: str) -> None:
    with TopologyTestDriver(topology(by_windows(kind, zero, plus))) as driver:
        send(driver, "null:a@15")

        assert driver.dropped == {("sum", "null key"): 1}


def test_the_headers_are_those_of_the_record() -> None:
    with TopologyTestDriver(topology(lambda b: grouped(b).count())) as driver:
        driver.input_topic("in").send("a", key="k", timestamp=1, headers={"h": b"1"})
        driver.input_topic("in").send("a", key="k", timestamp=2)

        assert [dict(record.headers) for record in driver.output_topic("out")] == [{"h": b"1"}, {}]


# ---- what a function gets is its own


@KINDS
def test_an_aggregator_may_change_what_it_gets(kind: str) -> None:
    def appended(key: str, value: str, values: list[str]) -> list[str]:
        values.append(value)
        return values

    def copied(key: str, value: str, values: list[str]) -> list[str]:
        return [*values, value]

    def extended(key: str, a: list[str], b: list[str]) -> list[str]:
        a.extend(b)
        return a

    outputs = []
    for aggregator, merger in ((appended, extended), (copied, lambda key, a, b: [*a, *b])):
        with TopologyTestDriver(topology(by_windows(kind, list, aggregator, merger)), auto_commit=False) as driver:
            send(driver, "k:a@12 k:b@15 k:c@11 k:d@30 k:e@32 k:f@25")
            driver.commit()
            outputs.append(driver.output_topic("out").read_all())

    assert outputs[0] == outputs[1]
    assert len(outputs[0]) >= 5


def test_the_old_value_that_is_sent_on_is_not_the_one_that_is_changed() -> None:
    def appended(key: str, value: str, values: list[str]) -> list[str]:
        values.append(value)
        return values

    def removed(group: str, old: list[str], count: int) -> int:
        return count - len(old)

    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        lists = grouped(builder).aggregate(list, appended)
        return lists.group_by(lambda key, values: ("all", values)).aggregate(
            int, lambda group, new, count: count + len(new), removed
        )

    with TopologyTestDriver(topology(shape)) as driver:
        assert sent(driver, "a:x@1 a:y@2 b:x@3 a:z@4") == "all=1@1 all=2@2 all=3@3 all=4@4"


def test_the_first_change_carries_the_initial_value_as_the_old_one() -> None:
    described = topology(
        lambda b: (
            grouped(b)
            .aggregate(lambda: 100, lambda k, v, a: a + 1)
            .group_by(lambda k, v: ("all", v))
            .reduce(lambda a, b: a + b, lambda a, b: a - b)
        )
    )
    with TopologyTestDriver(described) as driver:
        # 101, less nothing (no group yet); then + 102 - 101; then another's 101 less its 100.
        assert sent(driver, "a:x@1 a:x@2 b:x@3") == "all=101@1 all=102@2 all=103@3"


# ---- a forgotten return


@KINDS
def test_an_aggregator_that_changes_and_forgets_to_return_is_told(kind: str) -> None:
    def forgets(key: str, value: str, values: list[str]) -> Any:
        values.append(value)

    with TopologyTestDriver(topology(by_windows(kind, list, forgets))) as driver:
        with pytest.raises(ProcessingError, match=r"'sum'.*TypeError.*return the aggregate") as caught:
            send(driver, "k:a@15")

        assert isinstance(caught.value.__cause__, TypeError)


@KINDS
def test_so_is_one_that_forgets_later(kind: str) -> None:
    def forgets(key: str, value: str, values: list[str]) -> Any:
        values.append(value)
        return None if value == "b" else values

    with (
        TopologyTestDriver(topology(by_windows(kind, list, forgets))) as driver,
        pytest.raises(ProcessingError, match="TypeError"),
    ):
        send(driver, "k:a@15 k:b@15")


def test_a_merger_that_forgets_to_return_is_told() -> None:
    def forgets(key: str, a: list[str], b: list[str]) -> Any:
        a.extend(b)

    shape = by_windows("sessions", list, lambda key, value, values: [*values, value], forgets)
    with TopologyTestDriver(topology(shape)) as driver, pytest.raises(ProcessingError, match=r"'sum'.*TypeError"):
        send(driver, "k:a@15 k:b@16")


@KINDS
def test_none_without_a_change_deletes(kind: str) -> None:
    def aggregator(key: str, value: str, values: list[str]) -> list[str] | None:
        return None if value == "x" else [*values, value]

    with TopologyTestDriver(topology(by_windows(kind, list, aggregator))) as driver:
        send(driver, "k:a@15 k:x@15")
        last: Record[Any, Any] = driver.output_topic("out").read_all()[-1]

        assert (last.value, last.timestamp) == (None, 15)


def test_a_function_that_raises_changes_nothing() -> None:
    def fails(key: str, value: str, values: list[str]) -> list[str]:
        values.append(value)
        if value == "bad":
            raise ValueError("no")
        return values

    described = topology(lambda b: grouped(b).aggregate(list, fails, name="sum", on_error="skip"))
    with TopologyTestDriver(described) as driver:
        assert sent(driver, "k:a@1 k:bad@2 k:b@3") == "k=['a']@1 k=['a', 'b']@3"
        assert driver.dropped == {("sum", "error"): 1}


# ---- into a versioned store


def versioned(retention: int) -> Topology:
    kept = Materialized.versioned("store", history_retention=retention)
    return topology(lambda b: grouped(b).aggregate(zero, drop_on("x"), materialized=kept, name="sum"))


def test_h11_while_the_row_is_there_an_old_record_is_stored_at_the_rows_time() -> None:
    with TopologyTestDriver(versioned(100)) as driver:
        assert sent(driver, "k:a@1000 k:b@10") == "k=0+a@1000 k=0+a+b@1000"


def test_h11_without_a_row_a_record_older_than_the_history_is_dropped() -> None:
    with TopologyTestDriver(versioned(100)) as driver:
        assert sent(driver, "k:a@1000 n:b@10 n:c@950") == "k=0+a@1000 n=0+c@950"
        assert driver.dropped == {("sum", "expired"): 1}


def test_h11_behind_a_deletion_a_record_is_stored_and_not_the_latest() -> None:
    kept = Materialized.versioned("store", history_retention=100)

    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        table = grouped(builder).aggregate(zero, drop_on("x"), materialized=kept)
        return table.group_by(lambda k, v: ("all", v)).count()

    with TopologyTestDriver(topology(shape)) as driver:
        # b is older than the deletion: in history, but not what the table holds now, so the count does not see it.
        assert sent(driver, "k:a@1000 k:x@1010 k:b@990") == "all=1@1000 all=0@1010"
        assert driver.store("store").get("k") is None
        assert driver.store("store").get("k", as_of=995).value == "0+b"


# ---- partitions


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_a_group_by_finds_all_records_of_its_key_whatever_partitions_they_come_from(partitions: int) -> None:
    kept = Materialized.key_value("store")
    described = topology(lambda b: b.stream("in").group_by(lambda k, v: v, key=str).count(materialized=kept))
    with TopologyTestDriver(described, partitions=partitions) as driver:
        send(driver, " ".join(f"{key}:{value}@1" for key in "abcdefgh" for value in "xyz"))

        assert dict(driver.store("store").all()) == {"x": 8, "y": 8, "z": 8}
        assert driver.output_topic("out").read_table() == {"x": 8, "y": 8, "z": 8}


def test_arguments_are_checked_where_they_are_given() -> None:
    stream = grouped(StreamsBuilder())

    with pytest.raises(TypeError, match="aggregator must be callable"):
        stream.aggregate(list, None)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="reducer must be callable"):
        stream.reduce("sum")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="windowed_by takes"):
        stream.windowed_by(10)  # type: ignore[call-overload]  # the mistake
    with pytest.raises(ValueError, match="window store can't hold"):
        stream.count(materialized=Materialized.window("w"))
