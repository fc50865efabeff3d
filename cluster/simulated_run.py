"""One run of a job's tasks under a random scheduler: tasks crash, messages are late, lost and repeated, commits fall anywhere.

The world around the tasks is as harmful as a cluster can be, and every choice comes from one seed:

    splits     are read in pieces of any size; after a crash from the committed position on
    network    holds all messages that were ever sent and not lost; delivers any of them, some twice, some after a restart
    sinks      write what was committed, and forget to say so if their task crashes first: then the batch comes again
    crash      a task loses what it has not committed, and meets its peers again (`connecting`)

The tasks are the real ones (`PartitionTask`); so what holds here holds under every shell. Without a `Random` nothing goes
wrong and everything is done in turn: that is the undisturbed run that others are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from raystreams.cluster.bindings import name_of
from raystreams.cluster.connectors.base import ColumnBatch
from raystreams.cluster.exchange import Message
from raystreams.cluster.feeding import Feeder
from raystreams.cluster.outputs import WrittenBatch
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_settings import TaskSettings
from raystreams.cluster.wiring import Split, topics_of
from raystreams.operators.graph import TopicSink, TopicSource, Topology
from raystreams.operators.options import Topic
from raystreams.operators.record import Record
from raystreams.stores.database import TaskDatabase
from raystreams.stores.memory import MemoryEngine
from raystreams.stores.values import to_milliseconds

STEPS = 400
"""Random steps after which a run that has not ended goes on in turn, so that each run ends."""

ROUNDS = 10_000
"""Turns after which a run is stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitInput:
    """A split of a topic; `disorder` is that of its source, if the topic is a table."""

    topic: str
    records: Sequence[Record[Any, Any]]
    disorder: int = 0


@dataclass(slots=True)
class Outcome:
    """What a run gave: for each topic and partition the records in order, what was left out, and the tasks' databases."""

    outputs: dict[tuple[str, int], list[Record[Any, Any]]] = field(default_factory=dict)
    dropped: dict[tuple[str, str], int] = field(default_factory=dict)
    databases: list[TaskDatabase] = field(default_factory=list)


class _Reader:
    """Reads one split into its task, from the position that was committed."""

    def __init__(self, run: SimulatedRun, split: Split, records: Sequence[tuple[Any, Any, int, Any]]) -> None:
        self.split, self._records, self._run = split, records, run
        self.open()

    def open(self) -> None:
        """Begin after the committed position."""
        task = self._run.tasks[self.split.owner]
        self.channel = task.splits[self.split.id]
        position = self.channel.position
        self._next = 0 if position is None else int(position) + 1
        node, source = self._run.sources[self.split.topic]
        self._feeder = Feeder(
            task, self.channel, node, source, on_error=source.consumed.on_error or "fail", exactly_once=True
        )  # fmt: skip
        self._decode = source

    @property
    def at_end(self) -> bool:
        """Whether the task knows that nothing follows."""
        return self.channel.ended

    def read(self, count: int) -> None:
        """Hand on some records; at the end, say so."""
        if self._run.tasks[self.split.owner].is_held_up(self.channel):
            return
        part = self._records[self._next : self._next + count]
        if part:
            key, value = self._decode.key, self._decode.value
            keys = [None if k is None else key.decode(k) for k, _, _, _ in part]
            values = [None if v is None else value.decode(v) for _, v, _, _ in part]
            positions = range(self._next, self._next + len(part))
            times, headers = [t for _, _, t, _ in part], [h for _, _, _, h in part]
            self._feeder.feed(ColumnBatch(keys, values, times, positions, headers=headers))
            self._next += len(part)
        elif not self.at_end:
            self.channel.end()


class SimulatedRun:
    """A job of some partitions over given splits."""

    def __init__(
        self,
        topology: Topology,
        splits: Sequence[SplitInput],
        partitions: int,
        random: Random | None,
        *,
        task: type[PartitionTask] = PartitionTask,
        crashes: int = 4,
        edge_records: int = 64,
    ) -> None:
        self.topology, self.splits, self.partitions, self.random = topology, splits, partitions, random
        self._task, self._crashes = task, crashes if random is not None else 0
        self._settings = TaskSettings(job="simulation", edge_records=edge_records)
        self._engines = [MemoryEngine() for _ in range(partitions)]
        self._splits = _splits_of(topology, splits, partitions)
        self.sources = {
            topic: (node.name, node.operator)
            for node in topology.sources
            if isinstance(node.operator, TopicSource)
            for topic in topics_of(node.operator, self._splits)
        }
        unread = [split.topic for split in self._splits if split.topic not in self.sources]
        if unread:
            known = ", ".join(sorted(topic for node in topology.sources for topic in getattr(node.operator, "topics", ())))
            raise ValueError(f"the topology reads no topic {unread[0]!r}; it reads {known or 'none'}")
        self._types = {
            node.operator.topic: (node.operator.key, node.operator.value)
            for node in topology.sinks
            if isinstance(node.operator, TopicSink)
        }
        self._network: list[Message] = []
        self._written: dict[tuple[str, int], dict[int, list[Record[Any, Any]]]] = {}
        self.history: list[str] = []
        self.tasks = [self._start(partition) for partition in range(partitions)]
        self._readers = [
            _Reader(self, split, self._encoded(split, given)) for split, given in zip(self._splits, splits, strict=True)
        ]
        for task_ in self.tasks:
            self._meet(task_)

    def run(self) -> Outcome:
        """Run to the end; AssertionError if it never comes to one."""
        if self.random is not None:
            for _ in range(self.random.randint(1, STEPS)):
                self._step(self.random)
        for _ in range(ROUNDS):
            if self._turn():
                return self._outcome()
        raise AssertionError(f"the run is stuck: {self._describe()}")

    # ---- steps

    def _step(self, random: Random) -> None:
        task = random.choice(self.tasks)
        choice = random.random()
        if choice < 0.3 and self._readers:
            random.choice(self._readers).read(random.choice((1, 2, 7, 100)))
        elif choice < 0.55:
            task.process(random.choice((1, 2, 5, 50)))
        elif choice < 0.7:
            self._note(f"commit {task.partition}")
            outgoing = task.commit()
            if random.random() < 0.1 and self._crashes:
                self._crash(task)  # the commit is there, and nobody has heard of it
                return
            self._send(task, random)
            for batch in outgoing.batches:
                self._write(task, batch)
        elif choice < 0.75:
            self._send(task, random)
        elif choice < 0.96:
            self._deliver(random)
        elif self._crashes and random.random() < 0.5:
            self._crash(task)

    def _send(self, task: PartitionTask, random: Random) -> None:
        limit = random.choice((1, 2, 64))
        peers = [peer.partition for peer in self.tasks if peer is not task]
        self._network += [task.message_to(peer, limit=limit) for peer in peers]

    def _deliver(self, random: Random) -> None:
        if not self._network:
            return
        index = random.choice((0, random.randrange(len(self._network))))
        message = self._network[index]
        if random.random() > 0.15:  # otherwise it stays and comes once more
            del self._network[index]
        if random.random() > 0.1:  # otherwise it is lost
            self._note(f"deliver {message.sender} -> {message.receiver}")
            self.tasks[message.receiver].receive(message)

    def _crash(self, task: PartitionTask) -> None:
        self._crashes -= 1
        partition = task.partition
        self._note(f"crash {partition}")
        task.database.discard()
        task.database.close()
        started = self.tasks[partition] = self._start(partition)
        for topic in started.outputs.topics():
            for batch in started.outputs.pending(topic, *self._types.get(topic, (None, None))):
                self._write(started, batch)
        for reader in self._readers:
            if reader.split.owner == partition:
                reader.open()
        self._meet(started)

    def _turn(self) -> bool:
        """Everything once, nothing wrong; returns whether the run has ended."""
        self._network.clear()
        moved = False
        for reader in self._readers:
            before = (len(reader.channel.records), reader.at_end)
            reader.read(100)
            moved = moved or before != (len(reader.channel.records), reader.at_end)
        for task in self.tasks:
            moved = bool(task.process()) or task.took_ends() or moved
            outgoing = task.commit()
            for batch in outgoing.batches:
                self._write(task, batch)
                moved = True
            for message in outgoing.messages:
                moved = self.tasks[message.receiver].receive(message) or moved
        if moved:
            return False
        if all(task.finished and not task.unacknowledged for task in self.tasks):
            return True
        quiet = all(not task.waiting and not task.unacknowledged for task in self.tasks)
        if quiet and all(reader.at_end for reader in self._readers):
            for task in self.tasks:
                task.end_feedback()
        return False

    # ---- parts of the world

    def _start(self, partition: int) -> PartitionTask:
        identity = {"job": "simulation", "partition": partition, "partitions": self.partitions}
        database = TaskDatabase.open(None, identity, engine=self._engines[partition])
        return self._task(
            self.topology, partition, self.partitions, database, splits=self._splits, wall_clock=lambda: 0,
            settings=self._settings,
        )  # fmt: skip

    def _meet(self, task: PartitionTask) -> None:
        for peer in self.tasks:
            if peer is not task:
                peer.receive(task.message_to(peer.partition), connecting=True)
                task.receive(peer.message_to(task.partition), connecting=True)

    def _write(self, task: PartitionTask, batch: WrittenBatch) -> None:
        """A sink writes; a batch that it knows must be the same one."""
        records = list(batch.records)
        known = self._written.setdefault((batch.topic, task.partition), {})
        if batch.sequence in known:
            assert known[batch.sequence] == records, f"batch {batch.id} came again with another content"
        else:
            assert batch.sequence == len(known) + 1, f"batch {batch.id} came after {len(known)}"
            known[batch.sequence] = records
        task.outputs.was_written(batch.topic, 0, 1, batch.sequence, batch.sequence)

    def _encoded(self, split: Split, given: SplitInput) -> list[tuple[bytes | None, bytes | None, int, Any]]:
        _, source = self.sources[split.topic]
        return [
            (
                None if record.key is None else source.key.encode(record.key),
                None if record.value is None else source.value.encode(record.value),
                to_milliseconds(record.timestamp),
                record.headers,
            )
            for record in given.records
        ]

    def _outcome(self) -> Outcome:
        outcome = Outcome(databases=[task.database for task in self.tasks])
        for place, batches in self._written.items():
            outcome.outputs[place] = [record for sequence in sorted(batches) for record in batches[sequence]]
        for task in self.tasks:
            for name, count in task.dropped.items():
                outcome.dropped[name] = outcome.dropped.get(name, 0) + count
        return outcome

    def _note(self, text: str) -> None:
        self.history.append(text)

    def _describe(self) -> str:
        return "; ".join(
            f"task {task.partition}: {task.waiting} waiting, {task.unacknowledged} unacknowledged, finished {task.finished}"
            for task in self.tasks
        )


def _splits_of(topology: Topology, splits: Sequence[SplitInput], partitions: int) -> list[Split]:
    """Splits go to tasks in turn; a topic that is written inside is read from its channel, but may have input too."""
    made: list[Split] = []
    indexes: dict[str, int] = {}
    for number, given in enumerate(splits):
        index = indexes[given.topic] = indexes.get(given.topic, -1) + 1
        made.append(
            Split(topic=given.topic, name=str(index), index=index, owner=number % partitions, disorder=given.disorder)
        )  # fmt: skip
    return made


def by_topic(inputs: Sequence[tuple[str | Topic[Any, Any], Record[Any, Any]]]) -> list[SplitInput]:
    """One split for each topic, with its records in their order."""
    topics: dict[str, list[Record[Any, Any]]] = {}
    for topic, record in inputs:
        topics.setdefault(name_of(topic), []).append(record)
    return [SplitInput(topic=topic, records=records) for topic, records in topics.items()]

