"""What a job in a cluster has collected: kept in its tasks' databases, fetched into the `Collect` sinks when the job is over.

A `Collect` in a task's process would die with it. So there a topic that is collected has a sink that only counts, and its batches
stay in the database, where they are part of commits and of standbys. Who waits for the job reads them from the nodes that
have them, decodes them, and gives them to the job's own sinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from raystreams.cluster.bindings import Bindings
from raystreams.cluster.connectors.base import Position, RecordColumns, SinkBatch
from raystreams.cluster.connectors.collect import Collect
from raystreams.cluster.job import Job
from raystreams.cluster.rows import Rows
from raystreams.cluster.state_dir import task_identity
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_settings import TaskSettings
from raystreams.stores.database import TaskDatabase

PAGE_BYTES = 8 << 20


class Page(msgspec.Struct, frozen=True):
    """Batches of a topic in one partition: (sequence, row) in order. `is_last`: there are none after them."""

    batches: Sequence[tuple[int, bytes]]
    is_last: bool


Read = Callable[[int, str, int], Page]
"""Gives a page: of a partition, a topic, after a sequence."""


class _Counted:
    """The sink of a topic whose records stay in the state."""

    def open(self, partition: int, position: Position | None) -> _Counted:
        """There is nothing to open."""
        return self

    def write(self, batch: SinkBatch[Any, Any]) -> Position:
        """The database has it."""
        return batch.sequence

    def close(self) -> None:
        """There is nothing to close."""


def collected_topics(bindings: Bindings) -> frozenset[str]:
    """Return the topics that are collected."""
    return frozenset(topic for topic, sinks in bindings.sinks.items() if any(isinstance(sink, Collect) for sink in sinks))


def kept_in_state(bindings: Bindings) -> Bindings:
    """Return the bindings of a task in a cluster."""
    return Bindings(
        bindings.sources,
        {
            topic: tuple(_Counted() if isinstance(sink, Collect) else sink for sink in sinks)
            for topic, sinks in bindings.sinks.items()
        },
    )


def page_of(path: str, job: str, partition: int, partitions: int, topic: str, after: int) -> Page:
    """Read batches of a stopped task; runs on the node that has it."""
    with TaskDatabase.open(Path(path), task_identity(job, partition, partitions)) as database:
        found: list[tuple[int, bytes]] = []
        size = 0
        for name, data in Rows(database, "_sinks").scan():
            if name[0] != topic or name[1] <= after:
                continue
            if size >= PAGE_BYTES:
                return Page(found, is_last=False)
            found.append((name[1], data))
            size += len(data)
        return Page(found, is_last=True)


def collect(job: Job, read: Read) -> None:
    """Fill the `Collect` sinks of a job that is over; `read(partition, topic, after)` gives pages."""
    for topic in sorted(collected_topics(job.bindings)):
        sinks = [sink for sink in job.bindings.sinks[topic] if isinstance(sink, Collect)]
        for partition in range(job.partitions):
            _collect(job, topic, partition, sinks, read)


def _collect(job: Job, topic: str, partition: int, sinks: Sequence[Collect], read: Read) -> None:
    # Only a task knows the types of all that its nodes write into a topic.
    with TaskDatabase.open(None, {}) as database:
        settings = TaskSettings(job=job.name)
        task = PartitionTask(job.topology, partition, job.partitions, database, wall_clock=lambda: 0, settings=settings)
        writers = [sink.open(partition, 0) for sink in sinks]
        after = 0
        while True:
            page = read(partition, topic, after)
            for sequence, data in page.batches:
                after = sequence
                records = task.outputs.decode(topic, data)
                keys, values, timestamps, headers = zip(*records, strict=True)
                columns: RecordColumns[Any, Any] = RecordColumns(keys, values, timestamps, headers if any(headers) else None)
                for writer in writers:
                    writer.write(SinkBatch(f"{job.name}/{partition}/{topic}/{sequence}", sequence, columns))
            if page.is_last:
                return
