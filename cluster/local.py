"""The embedded runner: one process, all partitions, LevelDB under the state directory.

    readers (a thread a split) -> tasks, in this thread: offer, process, commit -> peers' tasks -> sinks

When it commits does not change what comes out, only how much is done again after a crash. A run ends when every source has
ended, everything sent is committed by its receiver, and every sink has written its last batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from raystreams.cluster.bindings import Bindings
from raystreams.cluster.garbage import rarely_collected
from raystreams.cluster.interrupts import stopped_by_signals
from raystreams.cluster.outputs import WrittenBatch
from raystreams.cluster.progress import Progress, Summary, merged
from raystreams.cluster.sink_writers import wait_or_stop
from raystreams.cluster.state_check import check_topology, note_finished, was_finished
from raystreams.cluster.state_dir import open_partition, task_identity
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_shell import COMMIT_RECORDS, COMMIT_SECONDS, RunSettings, TaskShell, splits_of_job
from raystreams.operators.graph import Topology
from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import RaystreamsError

STUCK_SECONDS = 10.0
"""After the end of all sources nothing has to be waited for; if nothing has moved for so long, something is wrong."""


class LocalRunner:
    """Runs a job in this process."""

    def __init__(self, topology: Topology, bindings: Bindings, settings: RunSettings) -> None:
        self.topology, self.bindings, self.settings = topology, bindings, settings
        self._databases: list[TaskDatabase] = []
        self._shells: list[TaskShell] = []
        self.listeners: list[Callable[[WrittenBatch], None]] = []
        """Called with each batch once it is committed, on the thread that runs."""
        self._unheard: list[WrittenBatch] = []
        self._wake = threading.Event()
        self._stopped = False
        self._started = time.monotonic()
        self._dropped_before: dict[tuple[str, str], int] = {}
        self._letters_before: dict[tuple[str, str], int] = {}

    @property
    def tasks(self) -> list[PartitionTask]:
        """The tasks, by partition."""
        return [shell.task for shell in self._shells]

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
        splits = splits_of_job(self.topology, self.bindings, settings.partitions)
        stopping = wait_or_stop(lambda: self._stopped)
        self._shells = [
            TaskShell(
                self.topology, self.bindings, settings, partition, database, splits, wake=self._wake.set, stopping=stopping
            )
            for partition, database in enumerate(self._databases)
        ]
        self._dropped_before, self._letters_before = self._counts("dropped"), self._counts("dead_letters")
        for shell in self._shells:
            shell.open()
            shell.write(shell.pending())
        if all(was_finished(database) for database in self._databases):
            return True
        tasks = self.tasks
        for task in tasks:
            for message in task.messages():
                tasks[message.receiver].receive(message, connecting=True)
        for shell in self._shells:
            shell.read()
        return False

    def _close(self) -> None:
        for shell in self._shells:
            shell.stop_reading()
        errors = []
        for shell in self._shells:
            try:
                shell.close()
            except Exception as error:
                errors.append(error)
        for database in self._databases:
            database.close()
        if errors:
            raise errors[0]

    # ---- the loop

    def _loop(self, progress: Callable[[Progress], None] | None) -> None:
        committed_at, processed = time.monotonic(), 0
        shells, tasks = self._shells, self.tasks
        changed = [True] * len(tasks)
        moved_at = time.monotonic()
        while not self._stopped:
            self._wake.clear()
            took = sum(shell.take() for shell in shells) > 0
            fired = [shell.punctuate() for shell in shells]
            worked = 0
            for number, task in enumerate(tasks):
                done = task.process(COMMIT_RECORDS)
                worked += done
                changed[number] = changed[number] or bool(done) or fired[number] or task.took_ends()
            processed += worked
            now = time.monotonic()
            if worked and processed < COMMIT_RECORDS and now - committed_at < COMMIT_SECONDS and len(tasks) == 1:
                continue
            moved = self._commit(changed)
            committed_at, processed = time.monotonic(), 0
            self._tell(progress)
            if worked or moved or took or any(shell.has_more_to_take for shell in shells):
                moved_at = time.monotonic()
                continue
            if all(shell.is_finished for shell in shells):
                break
            if all(shell.is_quiet for shell in shells) and sum(task.end_feedback() for task in tasks):
                continue
            if time.monotonic() - moved_at > STUCK_SECONDS and all(shell.all_read for shell in shells):
                raise RaystreamsError(self._what_waits())
            self._wake.wait(self._patience())
        self._commit([True] * len(tasks))
        if not self._stopped:
            for task, database in zip(tasks, self._databases, strict=True):
                note_finished(database)
                task.commit()
        self._tell(progress)

    def _commit(self, changed: list[bool]) -> bool:
        """Commit the tasks that changed, then deliver and write; returns whether a task has learnt something new."""
        news = False
        leaving = []
        tasks = self.tasks
        for number, task in enumerate(tasks):
            if changed[number]:
                outgoing = task.commit()
                leaving.append((number, outgoing.batches))
                changed[number] = False
                messages = outgoing.messages
            else:
                messages = task.messages()
            for message in messages:
                if tasks[message.receiver].receive(message):
                    changed[message.receiver] = news = True
        for number, batches in leaving:
            self._unheard += batches
            if not self._shells[number].write(batches):
                return news
            changed[number] = changed[number] or bool(batches)
        return news

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
        sources = merged(self.bindings.sources, [shell.progress() for shell in self._shells])
        return Progress(sources=sources, seconds=time.monotonic() - self._started)

    def _counts(self, what: str) -> dict[tuple[str, str], int]:
        total: dict[tuple[str, str], int] = {}
        for task in self.tasks:
            counts: Mapping[tuple[str, str], int] = getattr(task.host, what)
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count
        return total

    def _summary(self, *, already_finished: bool = False) -> Summary:
        sinks = dict.fromkeys(self.bindings.sinks, 0)
        for shell in self._shells:
            for topic, count in shell.writers.written.items():
                sinks[topic] = sinks.get(topic, 0) + count
        return Summary(
            sources={source.topic: source.records for source in self._progress().sources},
            sinks=sinks,
            dropped=_since(self._dropped_before, self._counts("dropped")),
            dead_letters=_since(self._letters_before, self._counts("dead_letters")),
            seconds=time.monotonic() - self._started,
            already_finished=already_finished,
        )


def _since(before: Mapping[Any, int], now: Mapping[Any, int]) -> dict[Any, int]:
    return {name: count - before.get(name, 0) for name, count in now.items() if count != before.get(name, 0)}
