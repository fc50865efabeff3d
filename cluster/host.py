"""What a task gives to its operators: stores, cells, channels, sinks, counters and clocks, all part of its commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.cluster.channels import Channel, Inputs
from raystreams.cluster.outputs import Failed
from raystreams.cluster.partitioning import router
from raystreams.cluster.rows import Rows
from raystreams.cluster.wiring import edges_of
from raystreams.operators.graph import Channel as ChannelDescription
from raystreams.operators.graph import TopicSink
from raystreams.operators.record import Headers, Process
from raystreams.stores.errors import SerdeError
from raystreams.stores.plain import decode_plain, encode_plain

if TYPE_CHECKING:
    from raystreams.cluster.task import PartitionTask


class _Cell:
    __slots__ = ("saved", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.saved: Any = _NEVER


_NEVER: Any = object()


class Context:
    """Where the record that is being processed came from."""

    def __init__(self, partition: int) -> None:
        self.channel: Channel | None = None
        self._partition = partition

    @property
    def partition(self) -> int:
        """The task's partition; -1 inside punctuators and at ends."""
        return self._partition if self.channel is not None else -1

    @property
    def topic(self) -> str | None:
        """The topic; None inside punctuators and at ends."""
        return self.channel.topic if self.channel is not None else None

    @property
    def position(self) -> Any:
        """The position in the split, or the number on the edge."""
        return self.channel.position if self.channel is not None else -1


@dataclass(frozen=True, slots=True)
class EdgeWriter:
    """Who writes an edge: the inputs of a sub-topology, or of an ingest stage, which has no channel in the topology."""

    inputs: Inputs
    channel: ChannelDescription | None
    sub_topology: int


class ChannelSends:
    """Sends a channel's records to the tasks of their keys, at the order of the record that is being processed."""

    def __init__(self, task: PartitionTask, channel: ChannelDescription, edge: str) -> None:
        self._task, self._name, self._channel = task, edge, channel.name
        self._partition_of = router(channel.key, task.partitions, task.partition, channel.partitioner)
        self._only = task.partitions == 1 and channel.partitioner is None
        self._held: list[Callable[[], int | None]] = []
        self._inputs: Inputs | None = None
        self.send = self._send_to_self if self._only else self._send
        if task.settings.tap:
            self.send_to = self._tapped(self.send_to)  # type: ignore[method-assign]
            if self._only:
                self.send = self._tapped(self.send)

    def _tapped(self, send: Callable[..., None]) -> Callable[..., None]:
        sent = self._task.host.tapped.setdefault(self._channel, [])

        def tapped(*record: Any) -> None:
            sent.append(record[-4:])
            send(*record)

        return tapped

    def order(self) -> int:
        """The order at which a record leaves now: that of the input, or of the oldest one that is held back on its way."""
        inputs = self._inputs
        if inputs is None:  # not known while operators start
            inputs = self._inputs = self._task.host.writers[self._name].inputs
            self._held = self._task.host.held(self._name)
        current = inputs.current
        for held in self._held:
            order = held()
            if order is not None and order < current:
                current = order
        return current

    def _send_to_self(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        task = self._task
        task.self_edges[self._name].add(self.order(), key, value, timestamp, headers)

    def _send(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.send_to(self._partition_of(key, value), key, value, timestamp, headers)

    def send_to(self, partition: int, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Send to a given partition."""
        task = self._task
        if partition == task.partition:
            task.self_edges[self._name].add(self.order(), key, value, timestamp, headers)
            task.host.sent_to_self(self._name)
        else:
            task.outgoing[self._name, partition].add(self.order(), key, value, timestamp, headers)

    def send_to_all(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Send to every task."""
        for partition in range(self._task.partitions):
            self.send_to(partition, key, value, timestamp, headers)


class TaskHost:
    """The `Host` of a task's operators."""

    def __init__(self, task: PartitionTask, rows: Rows, wall_clock: Callable[[], int]) -> None:
        self._task, self._rows, self.wall_clock = task, rows, wall_clock
        self.partition, self.partitions, self.on_error = task.partition, task.partitions, task.settings.on_error
        self.context = Context(task.partition)
        self.active: Inputs = Inputs("nothing", lambda channel: None)
        self.writers: dict[str, EdgeWriter] = {}
        """By edge."""
        self.commit_requested = False
        self.tapped: dict[str, list[Any]] = {}
        self.dropped: dict[tuple[str, str], int] = {(n[1], n[2]): count for n, count in rows.values("dropped")}
        self.dead_letters: dict[tuple[str, str], int] = {(n[1], n[2]): count for n, count in rows.values("dead letters")}
        self._cells: dict[tuple[str, str], _Cell] = {}
        self._stores: dict[str, Any] = {}

    # ---- for operators

    def store(self, name: str) -> Any:
        """The store, opened once."""
        store = self._stores.get(name)
        if store is None:
            store = self._stores[name] = self._task.topology.stores[name].create(self._task.database)
        return store

    def cell(self, owner: str, name: str, default: Any) -> _Cell:
        """A value that is part of the commit."""
        cell = self._cells.get((owner, name))
        if cell is None:
            data = self._rows.get("cell", owner, name)
            cell = self._cells[owner, name] = _Cell(default if data is None else decode_plain(data))
        return cell

    def channel(self, name: str, sub_topology: int) -> ChannelSends:
        """Sends on a channel of the topology, from one of its sub-topologies."""
        channel = self._task.topology.channels[name]
        edges = edges_of(self._task.topology, channel)
        return ChannelSends(self._task, channel, next(edge for edge, sub in edges.items() if sub == sub_topology))

    def ingest(self, channel: ChannelDescription) -> ChannelSends:
        """Sends on the channel of an ingest stage, which the topology does not know."""
        return ChannelSends(self._task, channel, channel.name)

    def end_channel(self, name: str) -> None:
        """Nothing more will be sent on a channel."""
        channel = self._task.topology.channels.get(name)
        for edge in [name] if channel is None else edges_of(self._task.topology, channel):
            self._task.ended_channels.add(edge)
            own = self._task.self_edges.get(edge)
            if own is not None:
                own.channel.end()

    def sink(self, topic: str, sink: TopicSink, failed: Failed) -> Process:
        """Writes a topic."""
        return self._task.outputs.process(topic, sink, failed)

    def dead_letter(self, topic: str, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Give out a record that failed, and count it by its cause."""
        reason = headers.get("error", b"").decode(errors="replace").partition(":")[0] or "error"
        self.dead_letters[topic, reason] = self.dead_letters.get((topic, reason), 0) + 1
        self._task.outputs.dead_letter(topic, key, value, timestamp, headers)

    def drop(self, operator: str, reason: str) -> None:
        """Count a record that is left out."""
        self.dropped[operator, reason] = self.dropped.get((operator, reason), 0) + 1

    def stream_time(self, sub_topology: int) -> int:
        """The largest timestamp that a sub-topology has seen here."""
        return self._task._parts[f"sub-topology {sub_topology}"].stream_time

    def request_commit(self) -> None:
        """Ask the shell for a commit soon."""
        self.commit_requested = True

    # ---- for the task

    @property
    def order(self) -> int:
        """The order of the record that is being processed."""
        return self.active.current

    def begin(self, channel: Channel) -> None:
        """Records of a channel are processed from now on."""
        self.context.channel = channel

    def at_its_record(self, error: SerdeError | TypeError) -> SerdeError | TypeError:
        """Say at which record a key or value couldn't be encoded, or was of another type than declared."""
        channel = self.context.channel
        where = ""
        if channel is not None:
            topic = channel.topic or channel.name
            where = f" (at the record of {topic!r}, partition {self.partition}, position {channel.position!r})"
        return SerdeError(f"{error}{where}") if isinstance(error, SerdeError) else TypeError(f"{error}{where}")

    def between_records(self) -> None:
        """No record is being processed."""
        self.context.channel = None

    def punctuate(self, sub_topology: int, time: int) -> None:
        """Fire what is due by stream time after a record; for that moment there is none."""
        channel, self.context.channel = self.context.channel, None
        self._task.execution.punctuations.stream_time_passed(sub_topology, time)
        self.context.channel = channel

    def sent_to_self(self, name: str) -> None:
        """A record came back to the inputs that are running: they must look again."""
        if self._task.self_edges[name].channel.feedback:
            self.active.interrupted = True

    def held(self, edge: str) -> list[Callable[[], int | None]]:
        """The nodes above an edge that hold records back: each says the order of its oldest one."""
        writer = self.writers[edge]
        return [] if writer.channel is None else self._task.execution.held(writer.channel.name, writer.sub_topology)

    def bound_of(self, edge: str) -> int:
        """No record that is yet to be sent on an edge has a smaller order."""
        return min([self.writers[edge].inputs.bound(), *self._held_back(edge)])

    def is_idle(self, edge: str) -> bool:
        """Whether all that an edge's records come from has caught up with live sources, and nothing is held back."""
        return not self._held_back(edge) and self.writers[edge].inputs.idle

    def _held_back(self, edge: str) -> list[int]:
        return [order for order in (held() for held in self.held(edge)) if order is not None]

    def restore_time(self, inputs: Inputs) -> None:
        """Take the clocks of inputs back after a restart."""
        inputs.stream_time, inputs.current = self._rows.get("time", inputs.name, default=[-1, inputs.current])

    def save(self, all_inputs: list[Inputs]) -> None:
        """Write what changed, for a commit."""
        for (owner, name), cell in self._cells.items():
            if cell.value != cell.saved:
                cell.saved = cell.value
                self._rows.put("cell", owner, name, value=encode_plain(cell.value))
        for (operator, reason), count in self.dropped.items():
            self._rows.put("dropped", operator, reason, value=count)
        for (topic, reason), count in self.dead_letters.items():
            self._rows.put("dead letters", topic, reason, value=count)
        for inputs in all_inputs:
            self._rows.put("time", inputs.name, value=[inputs.stream_time, inputs.current])
        self.commit_requested = False
