"""Batches on their way to sinks that want to be asked again: nothing is written twice, and nothing is counted twice."""

from __future__ import annotations

from typing import Any

from raystreams.cluster.sink_writers import SinkWriters
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.wiring import Split
from raystreams.stores.database import TaskDatabase

from raystreams import Record, RetryLater, SinkBatch, StreamsBuilder
from tests.cluster.jobs import Kept


def test_what_was_written_before_a_sink_wanted_to_wait_is_neither_written_nor_counted_again() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in")
    for topic in ("first", "nobody", "busy"):
        stream.to(topic)
    topology, waits = builder.build(), [1.0, 2.0]

    def busy(batch: SinkBatch[Any, Any]) -> None:
        if waits:
            raise RetryLater(waits.pop(0))

    first, second, asked = Kept(), Kept(), list[float]()
    second.before_write = busy
    database = TaskDatabase.open(None, {})
    task = PartitionTask(topology, 0, 1, database, splits=[Split(topic="in", name="s", index=0, owner=0)], wall_clock=lambda: 0)

    def stopping(seconds: float) -> bool:
        asked.append(seconds)
        return True

    writers = SinkWriters(task, topology, {"first": [first], "busy": [first, second]}, stopping)
    writers.open()
    task.offer("in/s", ["k", "k"], [1, 2], [0, 1], [0, 1])
    task.process()
    batches = sorted(task.commit().batches, key=lambda batch: batch.topic == "busy")
    taken = [all(writers.write(batch) for batch in batches) for _ in range(3)]

    assert (taken, asked) == ([False, False, True], [1.0, 2.0])
    assert second.all() == [Record("k", 1, 0), Record("k", 2, 1)]
    assert writers.written == {"first": 2, "nobody": 2, "busy": 2}
