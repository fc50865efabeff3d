"""Hands committed batches to the sinks' writers, and tells the tasks what was written.

A writer is opened with the position that was committed last; the batches after it come again first. A writer that raises
RetryLater is asked again with the same batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raystreams.cluster.bindings import AnySink
from raystreams.cluster.connectors.base import SinkBatch
from raystreams.cluster.errors import RetryLater, SinkError
from raystreams.cluster.outputs import WrittenBatch
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.user_code import describe, place_of
from raystreams.operators.graph import TopicSink, Topology
from raystreams.stores.errors import RaystreamsError


class SinkWriters:
    """The writers of one task."""

    def __init__(
        self, task: PartitionTask, topology: Topology, sinks: Mapping[str, Sequence[AnySink]], stopping: Callable[[float], bool]
    ) -> None:
        self._task, self._sinks, self._stopping = task, sinks, stopping
        self._serdes = {
            node.operator.topic: (node.operator.key, node.operator.value)
            for node in topology.sinks
            if isinstance(node.operator, TopicSink)
        }
        self._writers: dict[tuple[str, int], Any] = {}
        self.written: dict[str, int] = {}
        """Records by topic."""
        self._counted: dict[str, int] = {}
        """By topic: the last batch that was counted; batches come again when a sink wants to be asked later."""

    def open(self) -> None:
        """Open all writers."""
        for topic, sinks in self._sinks.items():
            for number, sink in enumerate(sinks):
                position = self._task.outputs.position(topic, number)
                self._writers[topic, number] = sink.open(self._task.partition, position)

    def pending(self) -> list[WrittenBatch]:
        """What was committed and not written, of each topic in order."""
        outputs = self._task.outputs
        return [
            batch
            for topic in outputs.topics()
            for batch in outputs.pending(topic, *self._serdes.get(topic, (None, None)))
        ]

    def write(self, batch: WrittenBatch) -> bool:
        """Give a batch to the sinks of its topic; returns False if stopped before that was done."""
        sinks = self._sinks.get(batch.topic, ())
        for number in range(len(sinks)):
            if self._task.outputs.written_up_to(batch.topic, number) >= batch.sequence:
                continue
            writer = self._writers[batch.topic, number]
            while True:
                try:
                    position = writer.write(SinkBatch(batch.id, batch.sequence, batch.records))
                    break
                except RetryLater as later:
                    if self._stopping(later.seconds):
                        return False
                except (RaystreamsError, OSError):
                    raise
                except Exception as error:
                    raise SinkError(
                        f"the sink of {batch.topic!r} failed in partition {self._task.partition} on the batch {batch.id}: "
                        f"{place_of(error, None)}: {describe(error)}. What is committed is safe, and is written by the next run"
                    ) from error
            self._task.outputs.was_written(batch.topic, number, len(sinks), batch.sequence, position)
        if not sinks:
            self._task.outputs.forget(batch.topic, batch.sequence)
        if batch.sequence > self._counted.get(batch.topic, 0):
            self._counted[batch.topic] = batch.sequence
            self.written[batch.topic] = self.written.get(batch.topic, 0) + len(batch.records)
        return True

    def close(self) -> None:
        """Close all writers; the first error is raised when all were tried."""
        first: Exception | None = None
        for writer in self._writers.values():
            try:
                writer.close()
            except Exception as error:
                first = first or error
        self._writers.clear()
        if first is not None:
            raise first


def wait_or_stop(is_stopped: Callable[[], bool]) -> Callable[[float], bool]:
    """A sleep that ends early, and says True, when the runner is asked to stop."""

    def wait(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not is_stopped():
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, 0.05))
        return True

    return wait
