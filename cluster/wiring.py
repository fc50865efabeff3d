"""Who reads what: which channels each sub-topology of each task has, as plain data. No records, no state.

Splits of a source go to tasks in turn, by their index. If something below relies on the key (`Topology.relies_on_key`) and
the source is not partitioned by our hash, an *ingest stage* on the task that owns a split sends each record to the task of
its key; so nothing is added to the graph, and with one partition nothing is sent. A global table's records go to all tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from raystreams.operators.graph import Channel, ChannelSink, ChannelSource, SubTopology, TopicSource, Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A split of the source that is bound to a topic. `index` counts the topic's splits; `disorder` is its tables'."""

    topic: str
    name: str
    index: int
    owner: int
    disorder: int = 0
    partitioned: bool = False

    @property
    def id(self) -> str:
        """Its name among all splits of the job."""
        return f"{self.topic}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSplit:
    """A split read by a source node, or by its ingest stage."""

    split: Split
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputEdges:
    """A channel into a source node, with the tasks that send on it."""

    channel: Channel
    senders: tuple[int, ...]
    topic: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The inputs of a sub-topology, or of an ingest stage (`ingest` is the channel that it feeds)."""

    name: str
    ingest: Channel | None = None
    to_all: bool = False
    splits: tuple[InputSplit, ...] = ()
    edges: tuple[InputEdges, ...] = ()
    order: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By source node: tables first, then order of description."""
    global_sources: tuple[str, ...] = ()


def wire(topology: Topology, splits: Sequence[Split], task: int, partitions: int) -> list[Part]:
    """The parts of one task, ingest stages first."""
    ingest: list[Part] = []
    parts: list[Part] = []
    for sub in topology.sub_topologies:
        own: list[InputSplit] = []
        edges: list[InputEdges] = []
        order: dict[str, tuple[int, int]] = {}
        global_sources: list[str] = []
        for position, name in enumerate(sub.nodes):
            operator = topology.nodes[name].operator
            if isinstance(operator, ChannelSource):
                channel = topology.channels[operator.channel]
                order[name] = (0 if channel.is_table else 1, position)
                edges += _edges(topology, channel, partitions)
            elif isinstance(operator, TopicSource):
                order[name] = (0 if operator.is_table else 1, position)
                if operator.is_global:
                    global_sources.append(name)
                for topic in topics_of(operator, splits):
                    read = [split for split in splits if split.topic == topic]
                    stage, direct, edge = _read(topology, name, operator, read, task, partitions)
                    ingest.extend(stage)
                    own.extend(direct)
                    edges.extend(edge)
                    if topic in topology.channels:
                        edges += _edges(topology, topology.channels[topic], partitions)
        parts.append(
            Part(
                name=f"sub-topology {sub.id}", splits=tuple(own), edges=tuple(edges), order=order,
                global_sources=tuple(global_sources),
            )
        )  # fmt: skip
    return [*ingest, *parts]


def topics_of(operator: TopicSource, splits: Sequence[Split]) -> list[str]:
    """The topics that a source reads; a pattern's are those that are there."""
    if operator.pattern is None:
        return list(operator.topics)
    pattern = operator.pattern
    return sorted({split.topic for split in splits if pattern.fullmatch(split.topic)})


def writers(topology: Topology, channel: str) -> list[int]:
    """The sub-topologies that write a channel."""
    return sorted(
        {
            topology.sub_topology_of[node.name]
            for node in topology.nodes.values()
            if isinstance(node.operator, ChannelSink) and node.operator.channel == channel
        }
    )


def edges_of(topology: Topology, channel: Channel) -> dict[str, int]:
    """The edges of a channel from each task, with the sub-topology that writes each.

    Sub-topologies go on at their own pace: their records on one edge would have no order that the data alone decides. So
    the second one to write a channel has an edge of its own, named after its node.
    """
    edges: dict[str, int] = {}
    for node in topology.nodes.values():
        if isinstance(node.operator, ChannelSink) and node.operator.channel == channel.name:
            sub = topology.sub_topology_of[node.name]
            if sub not in edges.values():
                edges[f"{channel.name} from {node.name}" if edges else channel.name] = sub
    return edges


def upstream_first(topology: Topology) -> list[SubTopology]:
    """The sub-topologies, each after those that send to it; where they send in circles, in order of description."""
    writers_of: dict[int, set[int]] = {sub.id: set() for sub in topology.sub_topologies}
    for channel in topology.channels.values():
        writers_of[topology.sub_topology_of[channel.source]].update(writers(topology, channel.name))
    waiting, placed = list(topology.sub_topologies), set[int]()
    found: list[SubTopology] = []
    while waiting:
        ready = (sub for sub in waiting if writers_of[sub.id] <= placed | {sub.id})
        found.append(next(ready, waiting[0]))
        placed.add(found[-1].id)
        waiting.remove(found[-1])
    return found


def _edges(topology: Topology, channel: Channel, partitions: int) -> list[InputEdges]:
    senders = tuple(range(partitions))
    return [
        InputEdges(channel=replace(channel, name=edge), senders=senders, topic=channel.name)
        for edge in edges_of(topology, channel)
    ]


def _read(
    topology: Topology, node: str, operator: TopicSource, splits: list[Split], task: int, partitions: int
) -> tuple[list[Part], list[InputSplit], list[InputEdges]]:
    """How a source node gets a topic's splits: directly, or through ingest stages and edges."""
    mine = tuple(InputSplit(split=split, source=node) for split in splits if split.owner == task)
    partitioned = bool(splits) and all(split.partitioned for split in splits)
    routed = operator.is_global or (topology.relies_on_key(node) and not partitioned)
    if partitions == 1 or not routed:
        return [], list(mine), []
    topic = splits[0].topic if splits else operator.topics[0]
    channel = Channel(
        name=f"{topic} to {node}", source=node, key=operator.key, value=operator.value, is_table=operator.is_table
    )
    stage = Part(name=f"ingest of {topic}", ingest=channel, to_all=operator.is_global, splits=mine, order={node: (0, 0)})
    senders = tuple(sorted({split.owner for split in splits}))
    return [stage] if mine else [], [], [InputEdges(channel=channel, senders=senders, topic=topic)]
