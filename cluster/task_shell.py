"""A task with what surrounds it: the readers of its splits, the writers of its sinks. No other task is known here.

    readers (a thread a split) -> take -> task: process, commit -> write -> sinks

The embedded runner drives one of these for each partition, a Ray actor drives one. When it commits does not change what
comes out, only how much is done again after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raystreams.cluster.bindings import AnySource, Bindings, splits_of
from raystreams.cluster.channels import START, Channel
from raystreams.cluster.connectors.base import SizedSource, Wait, reading_of
from raystreams.cluster.feeding import Feeder
from raystreams.cluster.outputs import WrittenBatch
from raystreams.cluster.progress import SourceProgress
from raystreams.cluster.sink_writers import SinkWriters
from raystreams.cluster.split_reader import Ended, Failed, Reader, SplitReader, failure_of
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_settings import EDGE_RECORDS, TaskSettings
from raystreams.cluster.wiring import Split, topics_of
from raystreams.operators.graph import TopicSource, Topology
from raystreams.operators.options import OnError
from raystreams.stores.database import TaskDatabase
from raystreams.stores.values import to_milliseconds

COMMIT_RECORDS = 20_000
COMMIT_SECONDS = 0.5
INTAKE = 16_384
"""Records that may wait in a split's channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a job says to its runner."""

    name: str
    partitions: int
    state_dir: Path | None
    on_error: OnError
    exactly_once: bool = True
    epoch: int = 0
    """The incarnation of the task, in a cluster."""
    keep_outputs: frozenset[str] = frozenset()
    """See `TaskSettings`."""
    edge_records: int = EDGE_RECORDS


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def splits_of_job(topology: Topology, bindings: Bindings, partitions: int) -> list[Split]:
    """All splits; the first task takes the first one of each topic, the next the second, and so on."""
    splits = []
    for topic, source in bindings.sources.items():
        reading = reading_of(source)
        is_table = any(
            isinstance(node.operator, TopicSource) and topic in node.operator.topics and node.operator.is_table
            for node in topology.sources
        )
        for index, name in enumerate(splits_of(topic, source)):
            splits.append(
                Split(
                    topic=topic, name=name, index=index, owner=index % partitions,
                    disorder=reading.disorder if is_table else 0, partitioned=reading.partitioned,
                )
            )  # fmt: skip
    return splits


class _SplitRun:
    """A split while it is read."""

    def __init__(self, split: Split, reader: Reader, feeder: Feeder, channel: Channel, idle_after: int | None) -> None:
        self.split, self.reader, self.feeder, self.channel, self.idle_after = split, reader, feeder, channel, idle_after
        self.ended = False
        self.quiet_since: float | None = None


class TaskShell:
    """One partition of a job, with its sources and sinks. `wake` is called from readers' threads when there is something."""

    def __init__(
        self,
        topology: Topology,
        bindings: Bindings,
        settings: RunSettings,
        partition: int,
        database: TaskDatabase,
        splits: Sequence[Split],
        *,
        wake: Callable[[], None],
        stopping: Callable[[float], bool],
        reader: Callable[[AnySource, str, Any, Callable[[], None]], Reader] = SplitReader,
    ) -> None:
        self.topology, self.bindings, self.settings, self.database = topology, bindings, settings, database
        self.task = PartitionTask(
            topology, partition, settings.partitions, database, splits=splits, wall_clock=wall_clock,
            settings=TaskSettings(
                job=settings.name, on_error=settings.on_error, epoch=settings.epoch, keep_outputs=settings.keep_outputs,
                edge_records=settings.edge_records,
            ),
        )  # fmt: skip
        self.writers = SinkWriters(self.task, topology, bindings.sinks, stopping)
        self._splits, self._wake, self._reader = splits, wake, reader
        self._runs: list[_SplitRun] = []

    # ---- opening and closing

    def open(self) -> None:
        """Open the sinks. What is to be written first is `pending`."""
        self.writers.open()

    def pending(self) -> list[WrittenBatch]:
        """What was committed and not written."""
        return self.writers.pending()

    def read(self) -> None:
        """Begin to read the splits, after their committed positions."""
        nodes = {
            topic: (node.name, node.operator)
            for node in self.topology.sources
            if isinstance(node.operator, TopicSource)
            for topic in topics_of(node.operator, self._splits)
        }
        for split in self._splits:
            if split.owner != self.task.partition or self.task.splits[split.id].finished:
                continue
            channel = self.task.splits[split.id]
            source, (node, operator) = self.bindings.sources[split.topic], nodes[split.topic]
            reading = reading_of(source)
            feeder = Feeder(
                self.task, channel, node, operator,
                on_error=reading.on_error or operator.consumed.on_error or self.settings.on_error,
                exactly_once=self.settings.exactly_once,
            )  # fmt: skip
            reader = self._reader(source, split.name, channel.position, self._wake)
            self._runs.append(_SplitRun(split, reader, feeder, channel, reading.idle_after))

    def stop_reading(self) -> None:
        """Close the sources, each at its next yield."""
        for run in self._runs:
            run.reader.stop()

    def close(self) -> None:
        """Close everything but the database, without a commit; the first error of a sink is raised at the end."""
        self.stop_reading()
        try:
            self.writers.close()
        finally:
            self.task.execution.close()

    # ---- the loop's parts

    def take(self) -> bool:
        """Feed the channels that have room; returns whether anything came."""
        took = False
        for run in self._runs:
            while not run.ended and len(run.channel.records) < INTAKE and not self.task.is_held_up(run.channel):
                item = run.reader.take()
                if item is None:
                    break
                took = True
                if isinstance(item, Failed):
                    raise failure_of(item.error, run.split.topic, run.split.name)
                if isinstance(item, Ended):
                    run.ended = True
                    run.channel.end()
                elif isinstance(item, Wait):
                    self._wait(run, item)
                else:
                    run.feeder.feed(item)
                    run.quiet_since = None
        return took

    def _wait(self, run: _SplitRun, wait: Wait) -> None:
        """A live source has caught up: it holds nobody back, and may say how far time is."""
        run.channel.idle = True
        if wait.watermark is not None:
            run.channel.watermark(to_milliseconds(wait.watermark) - run.split.disorder)
        if run.idle_after is not None:
            now = time.time() * 1000
            run.quiet_since = run.quiet_since or now
            if now - run.quiet_since >= run.idle_after:
                run.channel.watermark(int(now) - run.split.disorder)

    def punctuate(self) -> bool:
        """Fire what is due by the wall clock or by watermarks; returns whether something was."""
        return bool(self.task.punctuate(wall_clock())) or self.task.let_time_pass()

    def write(self, batches: Sequence[WrittenBatch]) -> bool:
        """Give committed batches to their sinks; returns False if stopped before all were written."""
        return all(self.writers.write(batch) for batch in batches)

    # ---- how far it is

    @property
    def has_more_to_take(self) -> bool:
        """Whether a source has given something for which there is room."""
        return any(not run.ended and run.reader.has_more and len(run.channel.records) < INTAKE for run in self._runs)

    @property
    def all_read(self) -> bool:
        """Whether every split that is read here has been read to its end."""
        return all(run.ended for run in self._runs)

    @property
    def is_finished(self) -> bool:
        """Whether all inputs have ended, and the other tasks have committed what was sent to them."""
        return self.task.finished and not self.task.unacknowledged

    @property
    def is_quiet(self) -> bool:
        """Whether every source has ended and nothing is on its way, though loops may not have ended."""
        if not all(run.ended and run.channel.finished for run in self._runs):
            return False
        return not self.task.waiting and not self.task.unacknowledged

    def progress(self) -> list[SourceProgress]:
        """How far the splits are that are read here, by topic."""
        return [self._progress_of(topic) for topic in dict.fromkeys(run.split.topic for run in self._runs)]

    def _progress_of(self, topic: str) -> SourceProgress:
        source = self.bindings.sources[topic]
        runs = [run for run in self._runs if run.split.topic == topic]
        tops = [run.channel.top for run in runs if run.channel.top != START]
        sizes = [source.size(run.split.name) if isinstance(source, SizedSource) else None for run in runs]
        return SourceProgress(
            topic=topic,
            records=sum(run.feeder.processed for run in runs),
            event_time=max(tops, default=None),
            bytes_read=sum(run.feeder.bytes_read or 0 for run in runs) if isinstance(source, SizedSource) else None,
            bytes_total=None if None in sizes else sum(size or 0 for size in sizes),
            ended=all(run.ended for run in runs),
        )
