"""What a simulated cluster is made of: sources and sinks without files, readers without threads, nodes, processes, calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from raystreams.cluster.bindings import dead_letter_topics, written_topics
from raystreams.cluster.connectors.base import SinkBatch, SourceRecord
from raystreams.cluster.job_record import Copy, JobRecord, PartitionRecord
from raystreams.cluster.links import Packet, encode
from raystreams.cluster.replica import Replica
from raystreams.cluster.replication import Replicate
from raystreams.cluster.rows import Rows
from raystreams.cluster.simulated_run import SplitInput
from raystreams.cluster.split_reader import Ended
from raystreams.cluster.standby import Place
from raystreams.cluster.task import PartitionTask
from raystreams.operators.graph import Topology
from raystreams.operators.record import Record
from raystreams.stores.database import TaskDatabase


class Chance(Protocol):
    """Decides what happens in a world."""

    def happens(self, probability: float) -> bool:
        """Whether something happens now; never in a world without chance."""
        ...

    def some(self, choices: Sequence[Any]) -> Any:
        """One of them; the last one in a world without chance."""
        ...


class ListSource:
    """A source of given splits, read in pieces of any size."""

    def __init__(self, chance: Chance, splits: Mapping[str, Sequence[Record[Any, Any]]], disorder: int) -> None:
        self._chance, self._splits, self.disorder = chance, splits, disorder

    def splits(self) -> Sequence[str]:
        """The names of the splits."""
        return [*self._splits]

    def read(self, split: str, position: Any) -> Iterator[Sequence[SourceRecord[Any, Any]]]:
        """Go on after a position."""
        records, at = self._splits[split], position or 0
        while at < len(records):
            size = self._chance.some((1, 2, 7))
            part = records[at : at + size]
            yield [SourceRecord(r.key, r.value, r.timestamp, at + n + 1, r.headers) for n, r in enumerate(part)]
            at += len(part)


class ListSink:
    """A sink that remembers batches; one that comes again must be equal, and none may be left out."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.batches: dict[int, dict[int, list[Record[Any, Any]]]] = {}

    def open(self, partition: int, position: Any) -> _ListWriter:
        """Begin after the position."""
        known = self.batches.setdefault(partition, {})
        assert (position or 0) <= len(known), f"the sink of {self.topic!r} has {len(known)} batches, not {position}"
        return _ListWriter(self.topic, known)


class _ListWriter:
    def __init__(self, topic: str, known: dict[int, list[Record[Any, Any]]]) -> None:
        self._topic, self._known = topic, known

    def write(self, batch: SinkBatch[Any, Any]) -> int:
        """Keep a batch."""
        records = list(batch.records)
        if batch.sequence in self._known:
            assert self._known[batch.sequence] == records, f"batch {batch.id} came again with another content"
        else:
            assert batch.sequence == len(self._known) + 1, f"batch {batch.id} came after {len(self._known)}"
            self._known[batch.sequence] = records
        return batch.sequence

    def close(self) -> None:
        """Keep all."""


class NowReader:
    """Reads a split when it is asked to, without a thread."""

    def __init__(self, chance: Chance, batches: Iterator[Any]) -> None:
        self._chance, self._batches = chance, batches
        self._next: Any = None
        self._ended = False

    def take(self) -> Any:
        """The next batch, now or later."""
        if self._ended or self._chance.happens(0.5):
            return None
        item = next(self._batches, None)
        if item is None:
            self._ended = True
            return Ended()
        return item

    @property
    def has_more(self) -> bool:
        """Whether it has not come to its end."""
        return not self._ended

    def stop(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class SimulatedNode:
    """A machine."""

    id: str
    disks: dict[str, Place] = field(default_factory=dict)
    is_there: bool = True
    is_cut_off: bool = False
    """The supervisor can't reach it; its processes live on."""


@dataclass(slots=True)
class SimulatedProcess:
    """An actor's process."""

    name: str
    node: SimulatedNode
    path: str
    replica: Replica


@dataclass(slots=True)
class Call:
    """Something that waits in the network: a packet or a request, or an answer."""

    caller: str
    to: str
    kind: str
    data: Any
    about: tuple[Any, ...]
    """What the caller gets back with the answer."""


class NetworkWires:
    """The wires of one process: what it sends waits in the network."""

    def __init__(self, post: Callable[[Call], None], name: str) -> None:
        self._post, self._name = post, name

    def packet(self, peer: str, packet: Packet) -> None:
        """Send a packet."""
        self._post(Call(self._name, peer, "packet", encode(packet), (packet,)))

    def request(self, standby: str, asked: Replicate) -> None:
        """Ask a standby."""
        self._post(Call(self._name, standby, "replicate", asked, (standby, asked)))


def list_sources(chance: Chance, topology: Topology, given: Sequence[SplitInput]) -> dict[str, ListSource]:
    """The sources of given splits, by topic; of a topic that nothing is given of, one without splits."""
    read = {topic for node in topology.sources for topic in getattr(node.operator, "topics", ())}
    topics: dict[str, dict[str, Sequence[Record[Any, Any]]]] = {
        topic: {} for topic in sorted(read - written_topics(topology)[0])
    }
    disorder: dict[str, int] = {}
    for one in given:
        splits = topics.setdefault(one.topic, {})
        splits[str(len(splits))] = one.records
        disorder[one.topic] = max(one.disorder, disorder.get(one.topic, 0))
    return {topic: ListSource(chance, splits, disorder.get(topic, 0)) for topic, splits in topics.items()}


def sink_topics(topology: Topology) -> set[str]:
    """The topics that are written and not read inside."""
    read = {topic for node in topology.sources for topic in getattr(node.operator, "topics", ())}
    return (written_topics(topology)[0] | dead_letter_topics(topology, {}, None)) - read


def outputs_of(sinks: Mapping[str, ListSink]) -> dict[tuple[str, int], list[Record[Any, Any]]]:
    """What sinks have, by topic and partition, in the order of batches."""
    return {
        (topic, partition): [record for sequence in sorted(batches) for record in batches[sequence]]
        for topic, sink in sinks.items()
        for partition, batches in sink.batches.items()
    }


def dropped_of(databases: Iterable[TaskDatabase]) -> dict[tuple[str, str], int]:
    """What tasks have left out, from their databases."""
    counts: dict[tuple[str, str], int] = {}
    for database in databases:
        for (_, operator, reason), count in Rows(database, "_task").values("dropped"):
            counts[operator, reason] = counts.get((operator, reason), 0) + count
    return counts


def check_edges(tasks: Mapping[int, PartitionTask]) -> None:
    """No task expects more of a peer than that has committed."""
    for task in tasks.values():
        for (channel, sender), incoming in task.incoming.items():
            if sender in tasks:
                edge = tasks[sender].outgoing[channel, task.partition]
                assert incoming.expected <= edge.next, f"{channel!r}: {task.partition} has more than {sender} has committed"


def restarted(record: JobRecord, copies: Mapping[int, tuple[str, str]]) -> JobRecord:
    """The record of a job that was stopped, to be started again from (node, path) of each partition's latest copy."""
    record.incarnation, record.counter = record.incarnation + 1, 0
    record.state, record.mode, record.splits = "starting", "run", None
    for partition, (node, path) in copies.items():
        copy = Copy(name=record.new_name(partition), node=node, path=path)
        record.tasks[partition] = PartitionRecord(epoch=record.new_epoch(), owner=copy.name, copies={copy.name: copy})
    return record
