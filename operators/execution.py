"""One running topology of one partition: every operator compiled into a function that already holds what comes after it.

At start each node's operator gives a `Process`; children are started before their parents, so that a record passes by plain
calls, depth first, in the order in which the children were attached: exactly Kafka's order, without record objects.

The task that runs it is the `Host`: it owns the stores, the clocks, the channels, the sinks and the counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from raystreams.operators.errors import ProcessingError
from raystreams.operators.graph import ChannelSink, Node, TopicSink, Topology
from raystreams.operators.options import DeadLetter, OnError
from raystreams.operators.punctuation import Cancellable, Punctuations
from raystreams.operators.record import Headers, Process
from raystreams.stores.errors import RaystreamsError, SerdeError
from raystreams.stores.values import ValueAndTimestamp


class Cell(Protocol):
    """A small value that belongs to the commit: a clock, a counter, a schedule. Plain data only."""

    value: Any


class ChannelSender(Protocol):
    """Sends to the tasks that own the keys."""

    def send(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Send to the partition of the key (None: the own one), or of the channel's partitioner."""
        ...

    def send_to(self, partition: int, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Send to a given partition."""
        ...


class RecordContext(Protocol):
    """Where the input record that is being processed came from; None and -1 inside punctuators."""

    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int: ...
    @property
    def position(self) -> Any: ...


class TableView(Protocol):
    """Looks rows of a table up, whether it has a store of its own or is computed from one above."""

    versioned: bool

    def get(self, key: Any) -> ValueAndTimestamp[Any] | None:
        """The latest row."""
        ...

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        """The row as it was at `timestamp`; only where `versioned`."""
        ...


class Host(Protocol):
    """What a task gives to the operators that it runs."""

    partition: int
    partitions: int
    on_error: OnError
    """The job's default."""

    @property
    def context(self) -> RecordContext: ...
    def store(self, name: str) -> Any: ...
    def cell(self, owner: str, name: str, default: Any) -> Cell: ...
    def channel(self, name: str, sub_topology: int) -> ChannelSender: ...
    def end_channel(self, name: str) -> None: ...
    def sink(self, topic: str, sink: TopicSink, failed: Callable[[Exception, Any, Any, int, Headers], None]) -> Process: ...
    def dead_letter(self, topic: str, key: Any, value: Any, timestamp: int, headers: Headers) -> None: ...
    def drop(self, operator: str, reason: str) -> None: ...
    def wall_clock(self) -> int: ...
    def stream_time(self, sub_topology: int) -> int: ...
    @property
    def order(self) -> int: ...
    def request_commit(self) -> None: ...


class NodeRuntime:
    """A node while it runs: what an operator's `start` gets."""

    def __init__(self, execution: Execution, node: Node) -> None:
        host = execution.host
        self.execution, self.node, self.host = execution, node, host
        self.name, self.partition, self.partitions = node.name, host.partition, host.partitions
        self.counted_as = node.name
        self.sub_topology = execution.topology.sub_topology_of[node.name]
        self.children: dict[str, Process] = {}
        self.forward: Process = _nowhere
        """Calls all children, in order. Complete only when `start` is called."""
        self.is_leaf = not execution.topology.children[node.name]
        """Whether nothing comes after this node."""
        self.at_end: list[Callable[[], Any]] = []
        self.at_time: list[Callable[[int], None]] = []
        self.at_commit: list[Callable[[], bool]] = []
        self.at_close: list[Callable[[], None]] = []
        self.oldest_held: Callable[[], int | None] = _nothing_held
        """The order of the oldest record that this node holds back; None: it holds nothing back."""
        self._held_above: list[Callable[[], int | None]] | None = None
        self.on_error = execution.on_error_of(node)
        self.lag = 0
        """How much older than the time that has passed here its later results may be: how long it holds records back."""

    @property
    def context(self) -> RecordContext:
        """Where the current input record came from."""
        return self.host.context

    def store(self, name: str) -> Any:
        """A store that this node is connected to; global stores are open to every node."""
        if name not in self.node.stores and name not in self.execution.topology.global_stores:
            known = ", ".join(map(repr, self.node.stores)) or "none"
            raise RaystreamsError(f"{self.name!r} has no access to the store {name!r} (it has: {known}). Pass stores=[{name!r}]")
        return self.host.store(name)

    def view(self, table: str) -> TableView:
        """Looks up in the table whose node is `table`."""
        return self.execution.view(table)

    def cell(self, name: str, default: Any) -> Cell:
        """A value under this node's name that is part of the commit."""
        return self.host.cell(self.name, name, default)

    def channel(self, name: str) -> ChannelSender:
        """Sends to another sub-topology."""
        return self.host.channel(name, self.sub_topology)

    def sink(self, topic: str, sink: TopicSink) -> Process:
        """Writes a topic."""
        return self.host.sink(topic, sink, self.not_written)

    def drop(self, reason: str) -> None:
        """Count a record that is left out, under this operator and the reason."""
        self.host.drop(self.name, reason)

    def dropping_as(self, operator: str | None) -> Callable[[str], None]:
        """`drop`, under the name that the user gave to an operator of several nodes; None: under this node's own."""
        self.counted_as = name = operator or self.name
        drop = self.host.drop
        return lambda reason: drop(name, reason)

    def wall_clock(self) -> int:
        """Milliseconds since the epoch, by the clock that the task was given."""
        return self.host.wall_clock()

    def stream_time(self) -> int:
        """The largest timestamp that this sub-topology has seen in this partition; -1 before the first."""
        return self.host.stream_time(self.sub_topology)

    def schedule(self, interval: int, clock: str, callback: Callable[[int], None]) -> Cancellable:
        """Call `callback(now)` every `interval` ms of stream time or wall-clock time (spec-runtime 5.3)."""
        return self.execution.punctuations.schedule(self, interval, clock, callback)

    def before_commit(self, callback: Callable[[], bool]) -> None:
        """Call before each commit, and before time passes, to give out what waits for that; it tells if there was something."""
        self.at_commit.append(callback)

    def when_ended(self, callback: Callable[[], Any]) -> None:
        """Call once when all inputs of this node have ended: close windows and buffers."""
        self.at_end.append(callback)

    def when_time_passes(self, callback: Callable[[int], None]) -> None:
        """Call with a time that no later record will be older than, when it moves without a record (watermarks)."""
        self.at_time.append(callback)

    def holds(self, order: Callable[[], int | None]) -> None:
        """For nodes that wait for answers: `order()` is what `host.order` was at the oldest open request.

        None: nothing is open. While a result is given out, it is that of its own request: what follows then sees each result
        in its record's place, however fast the answer came.
        """
        self.oldest_held = order

    @property
    def releases_in_order(self) -> bool:
        """Whether this node gives its results out in the order of their requests."""
        return self.oldest_held is not _nothing_held

    def order(self) -> int:
        """The order of the record that this node gets: of what it came from, if it was held back above."""
        order = self.host.order
        if self._held_above is None:  # not known while operators start
            self._held_above = self.execution.held_above(self.node.parents)
        for held in self._held_above:
            oldest = held()
            if oldest is not None and oldest < order:
                order = oldest
        return order

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call once when the task stops in good order: give resources back."""
        self.at_close.append(callback)

    def failed(self, error: Exception, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """A user's function raised: fail, skip or dead-letter, as `on_error` says. Its node's work for the record ends here."""
        if isinstance(error, RaystreamsError):
            raise error
        if self.on_error == "fail":
            raise self.error(error, key, timestamp) from error
        self._leave_out(error, key, value, timestamp, headers)

    def not_written(self, error: Exception, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """A record is not of the types of the topic that this node writes: fail, skip or dead-letter."""
        if self.on_error == "fail":
            text = f"{self.name!r} can't write the record of key {key!r} at time {timestamp}: {error}"
            raise (SerdeError(text) if isinstance(error, RaystreamsError) else TypeError(text)) from error
        self._leave_out(error, key, value, timestamp, headers)

    def _leave_out(self, error: Exception, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.host.drop(self.counted_as, "error")
        if isinstance(self.on_error, DeadLetter):
            cause = {"error": f"{type(error).__name__}: {error}".encode(), "operator": self.name.encode()}
            self.host.dead_letter(self.on_error.topic_name, key, value, timestamp, {**headers, **cause})

    def error(self, error: Exception, key: Any, timestamp: int) -> Exception:
        """The error to raise for what a user's function raised."""
        if isinstance(error, RaystreamsError):
            return error
        at = self.context
        return ProcessingError(
            self.name, at.topic, self.partition, at.position, key, timestamp, f"{type(error).__name__}: {error}"
        )


class Execution:
    """All sub-topologies of one partition, compiled. `sources` maps source nodes to the functions that take their records."""

    def __init__(self, topology: Topology, host: Host) -> None:
        self.topology, self.host = topology, host
        self.punctuations = Punctuations(host)
        self.runtimes = {name: NodeRuntime(self, node) for name, node in topology.nodes.items()}
        self._views: dict[str, TableView] = {}
        self._processes: dict[str, Process] = {}
        self._held: dict[tuple[str, int], list[Callable[[], int | None]]] = {}
        self._lags: dict[str, int] = {}
        for name in reversed(_parents_first(topology)):
            runtime = self.runtimes[name]
            runtime.children = {child: self._processes[child] for child in topology.children[name]}
            runtime.forward = _all_of(tuple(p for child, p in runtime.children.items() if _takes_results(topology.nodes[child])))
            self._processes[name] = topology.nodes[name].operator.start(runtime)
        self.sources = {name: p for name, p in self._processes.items() if not topology.nodes[name].parents}
        self._open = {name: set(_sources_above(topology, name)) for name in topology.nodes}
        self.holds_until_commit = any(runtime.at_commit for runtime in self.runtimes.values())

    def view(self, table: str) -> TableView:
        """The view of the table whose node is `table`, made once."""
        view = self._views.get(table)
        if view is None:
            operator: Any = self.topology.nodes[table].operator
            view = self._views[table] = operator.view(self.runtimes[table])
        return view

    def on_error_of(self, node: Node) -> OnError:
        """The nearest `on_error`: the node's own, else that of the nearest node above, else the job's."""
        seen: list[Node] = [node]
        while seen:
            for candidate in seen:
                own = candidate.on_error
                if own is not None:
                    return own
            seen = [self.topology.nodes[parent] for candidate in seen for parent in candidate.parents]
        return self.host.on_error

    def end(self, source: str, *, quietly: bool = False) -> None:
        """The input of a source node has ended: end every node below whose inputs have all ended, parents first.

        `quietly` only takes note, for a task that had come so far before it was restarted.
        """
        ended_channels: set[str] = set()
        for name in _parents_first(self.topology):
            inputs = self._open[name]
            if source not in inputs:
                continue
            inputs.discard(source)
            if inputs or quietly:
                continue
            for callback in self.runtimes[name].at_end:
                callback()
            operator = self.topology.nodes[name].operator
            if isinstance(operator, ChannelSink):
                ended_channels.add(operator.channel)
        for channel in ended_channels:
            if not any(self._open[n.name] for n in self.topology.writers(channel)):
                self.host.end_channel(channel)

    def held(self, channel: str, sub_topology: int) -> list[Callable[[], int | None]]:
        """The `holds` of all nodes above the sinks of a channel: no record on it overtakes what they hold back."""
        known = self._held.get((channel, sub_topology))
        if known is None:
            writers = [node.name for node in self.topology.writers(channel)]
            own = [name for name in writers if self.topology.sub_topology_of[name] == sub_topology]
            known = self._held[channel, sub_topology] = self.held_above(own)
        return known

    def held_above(self, nodes: Iterable[str]) -> list[Callable[[], int | None]]:
        """The `holds` of some nodes and of all above them."""
        above: set[str] = set()
        waiting = list(nodes)
        while waiting:
            name = waiting.pop()
            if name not in above:
                above.add(name)
                waiting.extend(self.topology.nodes[name].parents)
        found = [self.runtimes[name].oldest_held for name in self.topology.nodes if name in above]
        return [order for order in found if order is not _nothing_held]

    def close(self) -> None:
        """The task stops: let every operator give back what it holds."""
        failed: Exception | None = None
        for callback in [callback for runtime in self.runtimes.values() for callback in runtime.at_close]:
            try:
                callback()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def time_passes(self, sub_topology: int, timestamp: int) -> None:
        """No later input of this sub-topology will be older than `timestamp`.

        Below what holds records back less time has passed: what it gives out later would else be late there.
        """
        for name in self.topology.sub_topologies[sub_topology].nodes:
            callbacks = self.runtimes[name].at_time
            for give_out in self.runtimes[name].at_commit:
                give_out()
            if callbacks:
                lag = self._lags.get(name)
                if lag is None:
                    lag = self._lags[name] = self.topology.lag_above(name, lambda above: self.runtimes[above].lag)
                passed = timestamp - lag
                for callback in callbacks:
                    callback(passed)

    def give_out_held(self, sub_topology: int) -> bool:
        """A commit is next: let all nodes give out what waits for it, parents first; tells if there was something."""
        given = False
        for name in self.topology.sub_topologies[sub_topology].nodes:
            for give_out in self.runtimes[name].at_commit:
                given = give_out() or given
        return given


def _nowhere(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    return None


def _nothing_held() -> int | None:
    return None


def _takes_results(node: Node) -> bool:
    return not (isinstance(node.operator, ChannelSink) and node.operator.takes_late)


def _all_of(children: tuple[Process, ...]) -> Process:
    if not children:
        return _nowhere
    if len(children) == 1:
        return children[0]

    def forward(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for child in children:
            child(key, value, timestamp, headers)

    return forward


def _parents_first(topology: Topology) -> list[str]:
    """Node names, each after its parents. A node can only be attached to nodes that exist, so description order is that."""
    return list(topology.nodes)


def _sources_above(topology: Topology, name: str) -> set[str]:
    found, waiting = set(), [name]
    while waiting:
        node = topology.nodes[waiting.pop()]
        if not node.parents:
            found.add(node.name)
        waiting.extend(node.parents)
    return found
