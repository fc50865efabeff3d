"""A driver whose channels deliver when the test says so: messages of different edges may overtake one another.

An edge is (channel, sending partition, receiving partition); its own messages stay in order, as the exchange promises.
Values cross it as bytes. Everything runs in memory; nothing is ever committed.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from raystreams.operators.execution import Cell, ChannelSender, Execution, RecordContext
from raystreams.operators.graph import Channel, TopicSink, TopicSource
from raystreams.operators.options import OnError
from raystreams.operators.record import Headers, Process
from raystreams.stores.database import TaskDatabase
from raystreams.stores.serdes import partition_of

from raystreams import Record, Topology

Edge = tuple[str, int, int]
Message = tuple[bytes | None, bytes, int, Headers]


class _Cell:
    def __init__(self, value: Any) -> None:
        self.value = value


class _Context:
    topic: str | None = None
    partition = -1
    position: Any = None


class _Sender:
    def __init__(self, driver: DelayedDriver, channel: Channel, partition: int) -> None:
        self._driver, self._channel, self._partition = driver, channel, partition

    def send(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        channel, partitions = self._channel, self._driver.partitions
        if channel.partitioner is not None:
            target = channel.partitioner(key, value, partitions)
        elif key is None:
            target = self._partition
        else:
            target = partition_of(channel.key.partition_bytes(key), partitions)
        self.send_to(target, key, value, timestamp, headers)

    def send_to(self, partition: int, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        key_bytes = None if key is None else self._channel.key.encode(key)
        edge = (self._channel.name, self._partition, partition)
        self._driver.edges[edge].append((key_bytes, self._channel.value.encode(value), timestamp, headers))


class _Host:
    on_error: OnError = "fail"

    def __init__(self, driver: DelayedDriver, partition: int) -> None:
        self._driver, self.partition, self.partitions = driver, partition, driver.partitions
        self.context: RecordContext = _Context()
        self._cells: dict[tuple[str, str], Cell] = {}
        database = TaskDatabase.open(None, {"partition": partition})
        self._stores = {name: builder.create(database) for name, builder in driver.topology.stores.items()}

    def store(self, name: str) -> Any:
        return self._stores[name]

    def cell(self, owner: str, name: str, default: Any) -> Cell:
        return self._cells.setdefault((owner, name), _Cell(default))

    def channel(self, name: str, sub_topology: int) -> ChannelSender:
        return _Sender(self._driver, self._driver.topology.channels[name], self.partition)

    def end_channel(self, name: str) -> None:
        raise NotImplementedError

    def sink(self, topic: str, sink: TopicSink, failed: object) -> Process:
        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            self._driver.outputs.append(Record(key, value, timestamp, headers))

        return process

    def dead_letter(self, topic: str, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        raise NotImplementedError

    def drop(self, operator: str, reason: str) -> None:
        self._driver.dropped[operator, reason] += 1

    def wall_clock(self) -> int:
        return 0

    def stream_time(self, sub_topology: int) -> int:
        return -1

    @property
    def order(self) -> int:
        return 0

    def request_commit(self) -> None:
        pass


class DelayedDriver:
    """Runs all partitions of a topology. Outputs of all sinks are in `outputs`, what waits is in `edges`."""

    def __init__(self, topology: Topology, partitions: int) -> None:
        self.topology, self.partitions = topology, partitions
        self.edges: dict[Edge, collections.deque[Message]] = collections.defaultdict(collections.deque)
        self.outputs: list[Record[Any, Any]] = []
        self.dropped: collections.Counter[tuple[str, str]] = collections.Counter()
        self._tasks = [Execution(topology, _Host(self, partition)) for partition in range(partitions)]

    def send(self, topic: str, key: Any, value: Any, timestamp: int) -> None:
        """Give a record to the partition of its key; what it sends on waits."""
        for node in self.topology.sources:
            operator = node.operator
            if isinstance(operator, TopicSource) and topic in operator.topics:
                target = 0 if key is None else partition_of(operator.key.partition_bytes(key), self.partitions)
                self._tasks[target].sources[node.name](key, value, timestamp, {})

    @property
    def waiting(self) -> list[Edge]:
        """The edges that have something to deliver."""
        return sorted(edge for edge, messages in self.edges.items() if messages)

    def deliver(self, edge: Edge) -> None:
        """Deliver the oldest message of an edge."""
        key, value, timestamp, headers = self.edges[edge].popleft()
        channel = self.topology.channels[edge[0]]
        process = self._tasks[edge[2]].sources[channel.source]
        process(None if key is None else channel.key.decode(key), channel.value.decode(value), timestamp, headers)

    def deliver_all(self, choose: Callable[[list[Edge]], Edge] = lambda edges: edges[0]) -> None:
        """Deliver until nothing waits; `choose` says which edge is next."""
        while waiting := self.waiting:
            self.deliver(choose(waiting))
