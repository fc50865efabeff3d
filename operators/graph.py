"""The topology: an immutable graph of named operators, the stores they use and the channels between its parts.

    Node       an operator under a name, with its parents and its stores
    Channel    how records leave one sub-topology for another: a repartition, or a foreign-key subscription or response
    SubTopology  what is connected by parent edges or shared stores; channels cut

The graph knows no operator by name: an operator is anything with `start(node) -> Process`. Pure description: nothing here
runs, reads or writes. Source: spec-runtime 6.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from raystreams.operators.options import Consumed, OnError
from raystreams.operators.record import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from raystreams.operators.execution import NodeRuntime
    from raystreams.stores.builders import StoreBuilder
    from raystreams.stores.serdes import KeySerde, Serde


class Operator(Protocol):
    """A description of one step; frozen. Table operators that can be looked up in also have `view(node) -> TableView`."""

    def start(self, node: NodeRuntime) -> Process:
        """Return the function that takes this operator's records; called once when a task starts."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An operator in its place."""

    name: str
    operator: Operator
    parents: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    on_error: OnError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """Reads topics that the job binds to sources. `pattern` subscribes to every topic that it matches."""

    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None
    key: KeySerde
    value: Serde[Any]
    consumed: Consumed
    is_table: bool = False
    is_global: bool = False

    def start(self, node: NodeRuntime) -> Process:
        """Pass records on as they are."""
        return node.forward


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink:
    """Writes a topic: a name, or a function `(key, value, context) -> name`."""

    topic: str | Callable[[Any, Any, Any], str]
    key: KeySerde
    value: Serde[Any]
    partitioner: Callable[[Any, Any, int], int] | None = None

    def start(self, node: NodeRuntime) -> Process:
        """Hand records to the task's sinks."""
        if isinstance(self.topic, str):
            return node.sink(self.topic, self)
        choose, context = self.topic, node.context
        outputs: dict[str, Process] = {}

        def process(key: Any, value: Any, timestamp: int, headers: Mapping[str, bytes]) -> None:
            topic = choose(key, value, context)
            output = outputs.get(topic)
            if output is None:
                output = outputs[topic] = node.sink(topic, self)
            output(key, value, timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """Carries records to `source`'s node on the task of their key's partition, over the exchange.

    A `feedback` channel depends on its receiver's own output and never holds it back. `is_table` decides ties of time.
    """

    name: str
    source: str
    key: KeySerde
    value: Serde[Any]
    is_table: bool = False
    feedback: bool = False
    partitioner: Callable[[Any, Any, int], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSource:
    """Receives a channel's records."""

    channel: str

    def start(self, node: NodeRuntime) -> Process:
        """Pass records on as they are."""
        return node.forward


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSink:
    """Sends records to a channel. Records without a key are dropped, silently, unless `keep_null_keys`."""

    channel: str
    keep_null_keys: bool = True
    takes_late: bool = False
    """Whether it takes only the late records of the node above, which hands them to it; not what that node forwards."""

    def start(self, node: NodeRuntime) -> Process:
        """Route by the channel's key."""
        send = node.channel(self.channel).send
        if self.keep_null_keys:
            return send

        def process(key: Any, value: Any, timestamp: int, headers: Mapping[str, bytes]) -> None:
            if key is not None:
                send(key, value, timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class SubTopology:
    """A connected part of the graph: nodes in order of description."""

    id: int
    nodes: tuple[str, ...]
    stores: tuple[str, ...]


@dataclass(frozen=True)
class Topology:
    """What `StreamsBuilder.build()` returns: immutable, validated, without any I/O."""

    nodes: Mapping[str, Node]
    stores: Mapping[str, StoreBuilder[Any]]
    channels: Mapping[str, Channel] = field(default_factory=dict)
    global_stores: frozenset[str] = frozenset()
    unnamed_stateful: tuple[str, ...] = ()
    """Stateful operators whose names were generated, which move when a line is inserted."""
    formerly: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """Each node's children, in the order in which they were attached."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for parent in node.parents:
                found[parent].append(node.name)
        return {name: tuple(names) for name, names in found.items()}

    @cached_property
    def sub_topologies(self) -> tuple[SubTopology, ...]:
        """Connected parts, numbered in the order of their first nodes."""
        groups = _connected(self.nodes.values(), self.global_stores)
        return tuple(
            SubTopology(
                id=number,
                nodes=tuple(nodes),
                stores=tuple(dict.fromkeys(s for n in nodes for s in self.nodes[n].stores if s not in self.global_stores)),
            )
            for number, nodes in enumerate(groups)
        )

    @cached_property
    def sub_topology_of(self) -> Mapping[str, int]:
        """The number of each node's sub-topology."""
        return {name: sub.id for sub in self.sub_topologies for name in sub.nodes}

    def descendants(self, name: str) -> list[str]:
        """`name` and all nodes below it inside its sub-topology, in order of description."""
        reached = {name}
        for node in self.nodes.values():
            if any(parent in reached for parent in node.parents):
                reached.add(node.name)
        return [n for n in self.nodes if n in reached]

    @cached_property
    def sources(self) -> tuple[Node, ...]:
        """Nodes that read external topics."""
        return tuple(node for node in self.nodes.values() if isinstance(node.operator, TopicSource))

    @cached_property
    def sinks(self) -> tuple[Node, ...]:
        """Nodes that write external topics."""
        return tuple(node for node in self.nodes.values() if isinstance(node.operator, TopicSink))

    def writers(self, channel: str) -> list[Node]:
        """The nodes that send on a channel."""
        return [n for n in self.nodes.values() if isinstance(n.operator, ChannelSink) and n.operator.channel == channel]

    def lag_above(self, name: str, lags: Callable[[str], int], below: tuple[str, ...] = ()) -> int:
        """The largest sum of `lags(node)` on any path to a node, also over channels; one that leads around counts once."""
        if name in below:
            return 0
        node = self.nodes[name]
        parents = list(node.parents)
        if isinstance(node.operator, ChannelSource):
            parents = [writer.name for writer in self.writers(node.operator.channel)]
        return max((self.lag_above(parent, lags, (*below, name)) + lags(parent) for parent in parents), default=0)

    def relies_on_key(self, source: str) -> bool:
        """Whether the records of this source must be on the task of their key: a table, or state below it."""
        operator = self.nodes[source].operator
        if isinstance(operator, TopicSource) and operator.is_global:
            return False
        is_table = isinstance(operator, TopicSource) and operator.is_table
        return is_table or any(
            store not in self.global_stores for name in self.descendants(source) for store in self.nodes[name].stores
        )

    def describe(self) -> str:
        """The topology as text, in Kafka Streams' layout."""
        from raystreams.operators.describe import as_text

        return as_text(self)

    def to_mermaid(self) -> str:
        """The topology as a Mermaid flow chart."""
        from raystreams.operators.describe import as_mermaid

        return as_mermaid(self)


def _connected(nodes: Iterable[Node], global_stores: frozenset[str]) -> list[list[str]]:
    """Group nodes that share parent edges or stores, each group and the groups in order of description."""
    leader: dict[str, str] = {}

    def find(item: str) -> str:
        while leader.setdefault(item, item) != item:
            leader[item] = leader[leader[item]]
            item = leader[item]
        return item

    nodes = list(nodes)
    for node in nodes:
        linked = [f"node {p}" for p in node.parents] + [f"store {s}" for s in node.stores if s not in global_stores]
        for item in linked:
            leader[find(item)] = find(f"node {node.name}")
    groups: dict[str, list[str]] = {}
    for node in nodes:
        groups.setdefault(find(f"node {node.name}"), []).append(node.name)
    return list(groups.values())
