"""The embedded runner: one process, all partitions, LevelDB under the state directory.

    readers (a thread a split) -> tasks, in this thread: offer, process, commit -> peers' tasks -> sinks

When it commits does not change what comes out, only how much is done again after a crash. A run ends when every source has
ended, everything sent is committed by its receiver, and every sink has written its last batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raystreams.cluster.bindings import Bindings, splits_of
from raystreams.cluster.channels import START, Channel
from raystreams.cluster.connectors.base import SizedSource, Wait, reading_of
from raystreams.cluster.feeding import Feeder
from raystreams.cluster.garbage import rarely_collected
from raystreams.cluster.interrupts import stopped_by_signals
from raystreams.cluster.outputs import WrittenBatch
from raystreams.cluster.progress import Progress, SourceProgress, Summary
from raystreams.cluster.sink_writers import SinkWriters, wait_or_stop
from raystreams.cluster.split_reader import Ended, Failed, SplitReader, failure_of
from raystreams.cluster.state_check import check_topology, mark_finished, was_finished
from raystreams.cluster.state_dir import open_partition, task_identity
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_settings import TaskSettings
from raystreams.cluster.wiring import Split, topics_of
from raystreams.operators.graph import TopicSource, Topology
from raystreams.operators.options import OnError
from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import RaystreamsError
from raystreams.stores.values import to_milliseconds

COMMIT_RECORDS = 20_000
COMMIT_SECONDS = 0.5
STUCK_SECONDS = 10.0
"""After the end of all sources nothing has to be waited for; if nothing has moved for so long, something is wrong."""
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


class _SplitRun:
    """A split while it is read."""

    def __init__(self, split: Split, reader: SplitReader, feeder: Feeder, channel: Channel, idle_after: int | None) -> None:
        self.split, self.reader, self.feeder, self.channel, self.idle_after = split, reader, feeder, channel, idle_after
        self.ended = False
        self.quiet_since: float | None = None


class LocalRunner:
    """Runs a job in this process."""

    def __init__(self, topology: Topology, bindings: Bindings, settings: RunSettings) -> None:
        self.topology, self.bindings, self.settings = topology, bindings, settings
        self.tasks: list[PartitionTask] = []
        self._databases: list[TaskDatabase] = []
        self._writers: list[SinkWriters] = []
        self._runs: list[_SplitRun] = []
        self.listeners: list[Callable[[WrittenBatch], None]] = []
        """Called with each batch once it is committed, on the thread that runs."""
        self._unheard: list[WrittenBatch] = []
        self._wake = threading.Event()
        self._stopped = False
        self._started = time.monotonic()
        self._dropped_before: dict[tuple[str, str], int] = {}
        self._letters_before: dict[tuple[str, str], int] = {}

    def stop(self) -> None:
        """Commit what is processed, and end the run; may be called from any thread."""
        self._stopped = True
        self._wake.set()

    def run(self, progress: Callable[[Progress], None] | None = None) -> Summary:
        """Run until all sources have ended, or `stop` is called. What was committed stays, whatever happens."""
        self._started = time.monotonic()
        try:
            with stopped_by_signals(self.stop) as interrupted:
                if self._open():
                    return self._summary(already_finished=True)
                with rarely_collected():
                    self._loop(progress)
            interrupted()
            return self._summary()
        finally:
            self._close()

    # ---- opening and closing

    def _open(self) -> bool:
        """Open databases, tasks, writers and readers; returns whether there is nothing left to do."""
        settings = self.settings
        for partition in range(settings.partitions):
            if settings.state_dir is None:
                identity = task_identity(settings.name, partition, settings.partitions)
                database = TaskDatabase.open(None, identity)
            else:
                database = open_partition(settings.state_dir, settings.name, partition, settings.partitions)
            self._databases.append(database)
            check_topology(database, self.topology)
        splits = self._splits()
        task_settings = TaskSettings(job=settings.name, on_error=settings.on_error)
        for partition, database in enumerate(self._databases):
            task = PartitionTask(
                self.topology, partition, settings.partitions, database, splits=splits,
                wall_clock=lambda: time.time_ns() // 1_000_000, settings=task_settings,
            )  # fmt: skip
            self.tasks.append(task)
        self._dropped_before, self._letters_before = self._counts("dropped"), self._counts("dead_letters")
        stopping = wait_or_stop(lambda: self._stopped)
        for task in self.tasks:
            writers = SinkWriters(task, self.topology, self.bindings.sinks, stopping)
            self._writers.append(writers)
            writers.open()
        if all(was_finished(database) for database in self._databases):
            return True
        for task in self.tasks:
            for message in task.messages():
                self.tasks[message.receiver].receive(message, connecting=True)
        self._read(splits)
        return False

    def _splits(self) -> list[Split]:
        """All splits; the first task of a topic takes the first one, the next the second, and so on."""
        splits = []
        for topic, source in self.bindings.sources.items():
            reading = reading_of(source)
            is_table = any(
                isinstance(node.operator, TopicSource) and topic in node.operator.topics and node.operator.is_table
                for node in self.topology.sources
            )
            for index, name in enumerate(splits_of(topic, source)):
                splits.append(
                    Split(
                        topic=topic, name=name, index=index, owner=index % self.settings.partitions,
                        disorder=reading.disorder if is_table else 0, partitioned=reading.partitioned,
                    )
                )  # fmt: skip
        return splits

    def _read(self, splits: Sequence[Split]) -> None:
        nodes = {
            topic: (node.name, node.operator)
            for node in self.topology.sources
            if isinstance(node.operator, TopicSource)
            for topic in topics_of(node.operator, splits)
        }
        for split in splits:
            task = self.tasks[split.owner]
            channel = task.splits[split.id]
            if channel.finished:
                continue
            source, (node, operator) = self.bindings.sources[split.topic], nodes[split.topic]
            reading = reading_of(source)
            feeder = Feeder(
                task, channel, node, operator,
                on_error=reading.on_error or operator.consumed.on_error or self.settings.on_error,
                exactly_once=self.settings.exactly_once,
            )  # fmt: skip
            reader = SplitReader(source, split.name, channel.position, self._wake.set)
            self._runs.append(_SplitRun(split, reader, feeder, channel, reading.idle_after))

    def _close(self) -> None:
        for run in self._runs:
            run.reader.stop()
        errors = []
        for writers in self._writers:
            try:
                writers.close()
            except Exception as error:
                errors.append(error)
        for task in self.tasks:
            task.execution.close()
        for database in self._databases:
            database.close()
        if errors:
            raise errors[0]

    # ---- the loop

    def _loop(self, progress: Callable[[Progress], None] | None) -> None:
        committed_at, processed = time.monotonic(), 0
        changed = [True] * len(self.tasks)
        moved_at = time.monotonic()
        while not self._stopped:
            self._wake.clear()
            took = self._take()
            fired = self._punctuate()
            worked = 0
            for number, task in enumerate(self.tasks):
                done = task.process(COMMIT_RECORDS)
                worked += done
                changed[number] = changed[number] or bool(done) or fired[number] or task.took_ends()
            processed += worked
            now = time.monotonic()
            if worked and processed < COMMIT_RECORDS and now - committed_at < COMMIT_SECONDS and len(self.tasks) == 1:
                continue
            moved = self._commit(changed)
            committed_at, processed = time.monotonic(), 0
            self._tell(progress)
            if worked or moved or took or self._more_to_take():
                moved_at = time.monotonic()
                continue
            if self._is_finished():
                break
            if self._all_quiet() and sum(task.end_feedback() for task in self.tasks):
                continue
            if time.monotonic() - moved_at > STUCK_SECONDS and all(run.ended for run in self._runs):
                raise RaystreamsError(self._what_waits())
            self._wake.wait(self._patience())
        self._commit([True] * len(self.tasks))
        if not self._stopped:
            for task, database in zip(self.tasks, self._databases, strict=True):
                task.commit()
                mark_finished(database)
        self._tell(progress)

    def _take(self) -> bool:
        """Feed the channels that have room; returns whether anything came."""
        took = False
        for run in self._runs:
            while not run.ended and len(run.channel.records) < INTAKE and not self.tasks[run.split.owner].is_held_up(run.channel):
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

    def _punctuate(self) -> list[bool]:
        now = time.time_ns() // 1_000_000
        return [bool(task.punctuate(now)) or task.let_time_pass() for task in self.tasks]

    def _commit(self, changed: list[bool]) -> bool:
        """Commit the tasks that changed, then deliver and write; returns whether a task has learnt something new."""
        news = False
        leaving = []
        for number, task in enumerate(self.tasks):
            if changed[number]:
                outgoing = task.commit()
                leaving.append((number, outgoing.batches))
                changed[number] = False
                messages = outgoing.messages
            else:
                messages = task.messages()
            for message in messages:
                if self.tasks[message.receiver].receive(message):
                    changed[message.receiver] = news = True
        for number, batches in leaving:
            for batch in batches:
                self._unheard.append(batch)
                if not self._writers[number].write(batch):
                    return news
                changed[number] = True
        return news

    def _more_to_take(self) -> bool:
        return any(not run.ended and run.reader.has_more and len(run.channel.records) < INTAKE for run in self._runs)

    def _is_finished(self) -> bool:
        return all(task.finished and not task.unacknowledged for task in self.tasks)

    def _all_quiet(self) -> bool:
        """Every source has ended and nothing is on its way, but loops have not ended."""
        if not all(run.ended and run.channel.finished for run in self._runs):
            return False
        return all(not task.waiting and not task.unacknowledged for task in self.tasks)

    def _what_waits(self) -> str:
        """For an error that must not happen: better told than waited for."""
        waiting = [
            f"partition {task.partition}: {task.waiting} records wait, {task.unacknowledged} are not acknowledged; open inputs: "
            + ", ".join(f"{c.name} from {c.sender}" for i in task.inputs for c in i.channels if not c.finished)
            for task in self.tasks
            if not task.finished or task.unacknowledged
        ]
        return (
            "all sources have ended and nothing moves any more, but the job is not finished. Nothing committed is lost. Either "
            "the partitions' state is not of one moment (restore all of it from one copy, or begin again: `raystreams reset`), "
            "or this is a fault of raystreams: please report it with this text. " + "; ".join(waiting)
        )

    def _patience(self) -> float:
        """How long to sleep when nothing is to be done: until a reader wakes us, or a punctuator may be due."""
        return 0.05

    # ---- what it tells

    def _tell(self, progress: Callable[[Progress], None] | None) -> None:
        if progress is not None:
            progress(self._progress())
        for batch in self._unheard:
            for listen in list(self.listeners):
                listen(batch)
        self._unheard.clear()

    def _progress(self) -> Progress:
        sources = []
        for topic, source in self.bindings.sources.items():
            runs = [run for run in self._runs if run.split.topic == topic]
            tops = [run.channel.top for run in runs if run.channel.top != START]
            sized = isinstance(source, SizedSource)
            sizes = [source.size(run.split.name) if isinstance(source, SizedSource) else None for run in runs]
            read = [run.feeder.bytes_read for run in runs]
            sources.append(
                SourceProgress(
                    topic=topic,
                    records=sum(run.feeder.processed for run in runs),
                    event_time=max(tops, default=None),
                    bytes_read=sum(done or 0 for done in read) if sized else None,
                    bytes_total=sum(size or 0 for size in sizes) if sized and None not in sizes else None,
                    ended=all(run.ended for run in runs),
                )
            )
        return Progress(sources=sources, seconds=time.monotonic() - self._started)

    def _counts(self, what: str) -> dict[tuple[str, str], int]:
        total: dict[tuple[str, str], int] = {}
        for task in self.tasks:
            counts: Mapping[tuple[str, str], int] = getattr(task.host, what)
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count
        return total

    def _summary(self, *, already_finished: bool = False) -> Summary:
        sources = dict.fromkeys(self.bindings.sources, 0)
        for run in self._runs:
            sources[run.split.topic] += run.feeder.processed
        sinks = dict.fromkeys(self.bindings.sinks, 0)
        for writers in self._writers:
            for topic, count in writers.written.items():
                sinks[topic] = sinks.get(topic, 0) + count
        return Summary(
            sources=sources,
            sinks=sinks,
            dropped=_since(self._dropped_before, self._counts("dropped")),
            dead_letters=_since(self._letters_before, self._counts("dead_letters")),
            seconds=time.monotonic() - self._started,
            already_finished=already_finished,
        )


def _since(before: Mapping[Any, int], now: Mapping[Any, int]) -> dict[Any, int]:
    return {name: count - before.get(name, 0) for name, count in now.items() if count != before.get(name, 0)}
