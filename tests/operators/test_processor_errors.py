"""Processors that fail, and what is refused as one (spec-runtime 5.5, vectors M)."""

from __future__ import annotations

import pytest

from raystreams import DeadLetter, ProcessingError, Record, StreamsBuilder, TopologyTestDriver
from tests.operators.processors import Base, Double, topology


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
