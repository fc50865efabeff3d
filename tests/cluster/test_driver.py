"""The test driver: what is sent is processed to the end, over all partitions; a crash loses what was not committed only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from raystreams import (
    Consumed,
    DeadLetter,
    EmitStrategy,
    JoinWindows,
    Materialized,
    ProcessingError,
    Processor,
    Record,
    SerdeError,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topic,
    Topology,
    TopologyTestDriver,
)


@dataclass
class Order:
    user: str
    amount: int


ORDERS = Topic("orders", key=int, value=Order)
TOTALS = Materialized.key_value("totals", key=str, value=int)


def totals() -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(ORDERS).group_by(lambda key, order: order.user, key=str, name="users")
    summed = grouped.aggregate(int, lambda key, order, total: total + order.amount, materialized=TOTALS)
    summed.to_stream().to(Topic("totals", key=str, value=int))
    return builder.build()


def send(driver: TopologyTestDriver, number: int, user: str, amount: int) -> None:
    driver.input_topic(ORDERS).send(Order(user, amount), key=number, timestamp=number)


@pytest.mark.parametrize("partitions", [1, 4])
def test_each_record_is_processed_to_the_end_over_all_partitions(partitions: int) -> None:
    with TopologyTestDriver(totals(), partitions=partitions) as driver:
        out = driver.output_topic("totals")
        for number, (user, amount) in enumerate([("ann", 3), ("bob", 4), ("ann", 5)]):
            send(driver, number, user, amount)
            assert out.queue_size == 1
            assert out.read() == Record(user, 8 if number == 2 else amount, number)
        store = driver.store(TOTALS)

        assert out.is_empty() and list(store.all()) == [("ann", 8), ("bob", 4)] and store.get("bob") == 4
        assert list(store.reverse_range("a", "b")) == [("ann", 8)]
        assert driver.store("totals").approximate_num_entries() == 2
        with pytest.raises(LookupError, match="'totals'"):
            out.read()


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_crash_loses_what_was_not_committed_and_reads_it_again(
    tmp_path: Path, partitions: int, on_disk: bool
) -> None:
    state_dir = tmp_path if on_disk else None
    with TopologyTestDriver(totals(), partitions=partitions, state_dir=state_dir, auto_commit=False) as driver:
        store, out = driver.store(TOTALS), driver.output_topic("totals")
        send(driver, 1, "ann", 3)
        assert out.is_empty() and store.get("ann") == 3
        driver.crash()
        assert out.is_empty() and store.get("ann") == 3
        driver.commit()
        assert out.read_values() == [3]
        send(driver, 2, "bob", 1)
        send(driver, 3, "ann", 4)
        driver.crash()
        driver.crash()
        send(driver, 4, "bob", 1)
        driver.commit()

        assert out.read_all() == [Record("bob", 1, 2), Record("ann", 7, 3), Record("bob", 2, 4)] or partitions > 1
        driver.crash()
        assert out.read_all() == [] and dict(store.all()) == {"ann": 7, "bob": 2}


def test_outputs_that_were_committed_are_not_given_twice() -> None:
    with TopologyTestDriver(totals()) as driver:
        send(driver, 1, "ann", 3)
        driver.crash()

        assert driver.output_topic("totals").read_values() == [3]


def test_a_state_directory_lasts_longer_than_a_driver(tmp_path: Path) -> None:
    for total in (3, 6):
        with TopologyTestDriver(totals(), partitions=2, state_dir=tmp_path) as driver:
            send(driver, total, "ann", 3)
            assert driver.store(TOTALS).get("ann") == total


def test_what_is_sent_and_read_has_the_types_of_its_topic() -> None:
    builder = StreamsBuilder()
    builder.stream(ORDERS).to(Topic("copy", key=int, value=Order))
    builder.stream("plain").to("objects")
    with TopologyTestDriver(builder.build()) as driver:
        order = Order("ann", 3)
        driver.input_topic(ORDERS).send(order, key=1, timestamp=0)
        order.amount = 99
        copy = driver.output_topic("copy").read()

        assert copy.value == Order("ann", 3)
        with pytest.raises(TypeError, match="str"):
            driver.input_topic(ORDERS).send(Order("ann", 3), key="1", timestamp=0)
        with pytest.raises(SerdeError, match="Order"):
            driver.input_topic("plain").send(Order("ann", 3), key=1)


def test_times_headers_and_the_default_time() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with TopologyTestDriver(builder.build(), wall_clock=datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)) as driver:
        source, out = driver.input_topic("in"), driver.output_topic("out")
        source.send(1, headers={"h": b"x"})
        driver.advance_wall_clock(timedelta(seconds=2))
        source.send(2)
        source.send(3, timestamp=datetime(1970, 1, 1, 0, 0, 9, tzinfo=timezone.utc))
        records = out.read_all()

        assert [record.timestamp for record in records] == [1000, 3000, 9000]
        assert records[0].headers == {"h": b"x"} and records[0].time.second == 1
        with pytest.raises(ValueError, match="zone"):
            source.send(4, timestamp=datetime(1970, 1, 1))  # what is refused
        with pytest.raises(ValueError, match="can't go back"):
            driver.advance_wall_clock(-1)


def test_unknown_topics_and_stores_are_told_with_the_known_ones() -> None:
    with TopologyTestDriver(totals()) as driver:
        with pytest.raises(ValueError, match="reads 'orders'"):
            driver.input_topic("oders")
        with pytest.raises(ValueError, match="'totals'"):
            driver.output_topic("totls")
        with pytest.raises(ValueError, match="it has 'totals'"):
            driver.store("totls")


def test_repartitions_can_be_read_by_name() -> None:
    topology = totals()
    (channel,) = topology.channels
    with TopologyTestDriver(topology, partitions=3) as driver:
        send(driver, 1, "ann", 3)

        assert [record.key for record in driver.output_topic(channel)] == ["ann"]


def test_a_table_is_read_of_an_output_without_deleted_rows() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for key, value in [("a", 1), ("b", 2), ("a", None), ("b", 3)]:
            driver.input_topic("in").send(value, key=key)
        assert driver.output_topic("out").read_table() == {"b": 3}
        driver.input_topic("in").send(1)
        with pytest.raises(ValueError, match="no key"):
            driver.output_topic("out").read_table()


def test_raw_bytes_that_cannot_be_decoded_go_where_the_source_says() -> None:
    letters = Topic("letters")
    for on_error, counted in (("skip", []), (DeadLetter(letters), [b"\xff"])):
        builder = StreamsBuilder()
        consumed = Consumed(on_error=on_error)  # type: ignore[arg-type]  # a Literal in a loop
        builder.stream(ORDERS, consumed=consumed).to("out")
        with TopologyTestDriver(builder.build()) as driver:
            driver.input_topic(ORDERS).send_raw(b"\xff", key=None, timestamp=1)
            assert list(driver.dropped.values()) == [1] and driver.output_topic("out").is_empty()
            if counted:
                assert [record.value for record in driver.output_topic(letters)] == counted
    with TopologyTestDriver(totals()) as driver, pytest.raises(SerdeError, match="'orders'"):
        driver.input_topic(ORDERS).send_raw(b"\xff", timestamp=1)


def test_an_extractor_gives_the_time_and_a_negative_one_leaves_the_record_out() -> None:
    def extract(record: Record[Any, Any], partition_time: int) -> int:
        return record.value if record.value != 0 else partition_time

    builder = StreamsBuilder()
    builder.stream("in", consumed=Consumed(timestamp_extractor=extract)).to("out", name="out")
    with TopologyTestDriver(builder.build()) as driver:
        for value in (7, 0, -1, 3):
            driver.input_topic("in").send(value)

        assert [record.timestamp for record in driver.output_topic("out")] == [7, 7, 3]
        assert [(reason, count) for (_, reason), count in driver.dropped.items()] == [("negative timestamp", 1)]


def test_a_topic_of_a_pattern_is_read_once_it_is_used() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("log-.*")).to("all")
    with TopologyTestDriver(builder.build(), partitions=2) as driver:
        driver.input_topic("log-a").send(1, key="x")
        driver.input_topic("log-b").send(2, key="y")

        assert sorted(driver.output_topic("all").read_values()) == [1, 2]
        with pytest.raises(ValueError, match="does not read a topic 'other'"):
            driver.input_topic("other")


def test_the_order_is_outputs_first_then_recursion() -> None:
    """TopologyTestDriverTest: an input that writes "beta" and recurses gives "beta" before its recursive result."""
    builder = StreamsBuilder()
    alphas = builder.stream("alpha")
    alphas.filter(lambda key, n: n > 0).map_values(lambda n: n - 1).to("alpha")
    alphas.map_values(lambda n: f"beta {n}").to("beta")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("alpha").send(2, key="k")

        assert driver.output_topic("beta").read_values() == ["beta 2", "beta 1", "beta 0"]


def test_l3_wall_clock_punctuators_fire_once_an_advance() -> None:
    """TopologyTestDriverTest#shouldPunctuateOnWallClockTime; and again after a crash, as what was not committed."""
    fired: list[int] = []

    class Ticks(Processor[Any, Any]):
        def init(self, context: Any) -> None:
            context.schedule(10, fired.append, clock="wall")

        def process(self, record: Record[Any, Any]) -> None:
            return None

    builder = StreamsBuilder()
    builder.stream("in").process(Ticks).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for step in (5, 9, 1, 20, 5):
            driver.advance_wall_clock(step)

    assert fired == [14, 35, 40]


def test_event_time_and_the_end_of_input_close_windows() -> None:
    builder = StreamsBuilder()
    windows = builder.stream("in").group_by(lambda key, n: "x").windowed_by(TimeWindows(10, grace=5))
    windows.emit_strategy(EmitStrategy.on_window_close()).count().to_stream().to("out")
    with TopologyTestDriver(builder.build(), partitions=3, auto_commit=False) as driver:
        out = driver.output_topic("out")
        for time in (1, 2, 11):
            driver.input_topic("in").send(0, key=str(time), timestamp=time)
        driver.advance_event_time(15)
        driver.commit()
        assert [(record.key.start, record.value) for record in out] == [(0, 2)]
        driver.end_of_input()
        driver.crash()
        driver.commit()

        assert [(record.key.start, record.value) for record in out] == [(10, 1)]


def test_joins_of_streams_let_unmatched_records_out_at_the_end() -> None:
    builder = StreamsBuilder()
    windows = JoinWindows(before=5, after=5)
    builder.stream("a").left_join(builder.stream("b"), lambda x, y: [x, y], windows=windows).to("out")
    with TopologyTestDriver(builder.build(), partitions=2) as driver:
        driver.input_topic("a").send("x", key="k", timestamp=1)
        driver.end_of_input()

        assert driver.output_topic("out").read_values() == [["x", None]]


def test_drops_are_counted_over_partitions_and_belong_to_the_commit() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by(lambda key, n: "x").windowed_by(TimeWindows(10)).count(name="counts").to_stream().to("out")
    with TopologyTestDriver(builder.build(), partitions=3, auto_commit=False) as driver:
        for number, time in enumerate((20, 1, 2)):
            driver.input_topic("in").send(0, key=str(number), timestamp=time)
        driver.commit()
        driver.input_topic("in").send(0, key="z", timestamp=3)
        driver.crash()

        assert driver.dropped["counts", "late"] == 3


def test_a_function_that_fails_is_named_with_its_record() -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda n: 1 // n, name="invert").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("in").send(1, key="a", timestamp=5)
        with pytest.raises(ProcessingError, match=r"'invert' failed on key 'b' at time 6 .*position 2"):
            driver.input_topic("in").send(0, key="b", timestamp=6)


def test_a_store_is_read_plainly_over_partitions_by_key_window_and_version() -> None:
    builder = StreamsBuilder()
    versions = Materialized.versioned("versions", history_retention=1000)
    builder.table("rows", materialized=versions)
    grouped = builder.stream("in").group_by_key()
    grouped.windowed_by(TimeWindows(10)).count(materialized=Materialized.window("windows", retention=1000))
    builder.add_state_store(Stores.key_value("unused"))
    with TopologyTestDriver(builder.build(), partitions=3) as driver:
        for number, key in enumerate("abcd"):
            driver.input_topic("in").send(0, key=key, timestamp=number * 5)
            driver.input_topic("rows").send(number, key=key, timestamp=number)
            driver.input_topic("rows").send(number * 10, key=key, timestamp=number + 50)
        windows, rows = driver.store("windows"), driver.store("versions")

        assert [(w.key, w.start, n) for w, n in windows.all()] == [("a", 0, 1), ("b", 0, 1), ("c", 10, 1), ("d", 10, 1)]
        assert [(w.key, n) for w, n in windows.backward_fetch_all(10, 10)] == [("d", 1), ("c", 1)]
        assert windows.fetch("c", 10) == 1 and list(windows.fetch("b", 0, 100)) == [(0, 1)]
        assert rows.get("b").value == 10 and rows.get("b", as_of=20).value == 1
        assert [version.value for version in rows.history("d")] == [3, 30]
