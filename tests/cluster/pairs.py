"""Two tasks of a small job, each with its `Links`: a test delivers or loses every packet itself. Task 0 owns the split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raystreams.cluster.links import Links, Packet, Reply
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_settings import TaskSettings
from raystreams.cluster.wiring import Split
from raystreams.stores.database import TaskDatabase
from raystreams.stores.memory import MemoryEngine
from raystreams.stores.serdes import key_serde, partition_of

from raystreams import StreamsBuilder, Topology


def key_of(partition: int, partitions: int = 2, prefix: str = "") -> str:
    """A key that lives in a partition."""
    encode = key_serde(None).encode
    return next(key for key in (f"{prefix}{n}" for n in range(100)) if partition_of(encode(key), partitions) == partition)


HERE, THERE = key_of(0), key_of(1)


def counting() -> Topology:
    """Values are counted in the partition that they hash to."""
    builder = StreamsBuilder()
    builder.stream("in").select_key(lambda key, value: value).group_by_key().count().to_stream().to("out")
    return builder.build()


def copy_of(engine: MemoryEngine) -> MemoryEngine:
    """The files of a task as they are now, to be put back later."""
    copied = MemoryEngine()
    copied.write([*engine.scan(b"", None, None)], sync=False)
    return copied


class Pair:
    """Tasks 0 and 1, which know of each other from the start and have not met."""

    def __init__(self) -> None:
        self.topology = counting()
        self.engines = [MemoryEngine(), MemoryEngine()]
        self.epochs = [1, 1]
        self.offered = 0
        self.tasks = [self._open(0), self._open(1)]
        self.links = [self._link(0), self._link(1)]

    def _open(self, partition: int) -> PartitionTask:
        database = TaskDatabase.open(None, {"partition": partition}, engine=self.engines[partition])
        splits = [Split(topic="in", name="s", index=0, owner=0)]
        settings = TaskSettings(epoch=self.epochs[partition])
        return PartitionTask(self.topology, partition, 2, database, splits=splits, wall_clock=lambda: 0, settings=settings)

    def _link(self, partition: int) -> Links:
        links = Links(self.tasks[partition], self.epochs[partition])
        links.know({1 - partition: self.epochs[1 - partition]})
        return links

    def crash(self, partition: int, engine: MemoryEngine | None = None) -> None:
        """The task comes back under a new epoch, with its own files or with others. Its peer has not heard of that."""
        self.tasks[partition].database.close()
        if engine is not None:
            self.engines[partition] = engine
        self.epochs[partition] = max(self.epochs) + 1
        self.tasks[partition] = self._open(partition)
        self.links[partition] = self._link(partition)

    def tell(self, partition: int) -> None:
        """A task hears which incarnation of its peer there is."""
        self.links[partition].know({1 - partition: self.epochs[1 - partition]})

    def commit(self, *values: Any) -> None:
        """Task 0 reads some values, and commits."""
        times = range(self.offered, self.offered + len(values))
        self.offered += len(values)
        self.tasks[0].offer("in/s", [None] * len(values), values, times, times)
        self.step(0)

    def step(self, partition: int) -> Any:
        """A task processes all that it has, and commits."""
        self.tasks[partition].process()
        return self.tasks[partition].commit(tell=False)

    def due(self, partition: int) -> Packet:
        """The one packet that leaves a task."""
        (packet,) = self.links[partition].due()
        return packet

    def deliver(self, packet: Packet) -> Reply:
        """A packet arrives, and its reply does."""
        reply, _ = self.links[packet.message.receiver].receive(packet)
        self.links[packet.message.sender].answered(packet, reply)
        return reply

    def exchange(self) -> None:
        """Everything that is due arrives, until nothing is."""
        for _ in range(20):
            packets = [packet for links in self.links for packet in links.due()]
            if not packets:
                return
            for packet in packets:
                self.deliver(packet)
        raise AssertionError("packets never end")


def runs_of(packet: Packet) -> list[tuple[int, int]]:
    """(first number, count) of the runs of a packet."""
    return [(run.first, run.count) for run in packet.message.runs]


def without_first_run(packet: Packet) -> Packet:
    """The packet as it would be if its first run had got lost."""
    return Packet(replace(packet.message, runs=packet.message.runs[1:]), packet.sender_epoch, packet.receiver_epoch)


def written(outgoing: Any) -> list[tuple[Any, Any]]:
    """(key, value) of what a commit gives to sinks."""
    return [(record.key, record.value) for batch in outgoing.batches for record in batch.records]
