"""What the tests of processors share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raystreams import Record, StreamsBuilder, Topology, TopologyTestDriver

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
