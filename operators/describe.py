"""A topology as text, in exactly Kafka Streams' layout, and as a Mermaid flow chart.

    Topologies:
       Sub-topology: 0
        Source: KSTREAM-SOURCE-0000000000 (topics: [words])
          --> KSTREAM-FILTER-0000000001
        ...

Inside a sub-topology, and in each list of names, the node with the larger tree below it comes first, then the name (spec-runtime
6.5). A channel is written and read like a topic of its name.
"""

from __future__ import annotations

from collections.abc import Iterable

from raystreams.operators.graph import ChannelSink, ChannelSource, SubTopology, TopicSink, TopicSource, Topology


def as_text(topology: Topology) -> str:
    """The topology in the layout of Kafka Streams' `Topology.describe()`."""
    size = _sizes(topology)
    parts = [_sub_topology(topology, sub, size) for sub in topology.sub_topologies]
    return "Topologies:\n " + "".join(f"  {part}" for part in parts)


def as_mermaid(topology: Topology) -> str:
    """The topology as a Mermaid flow chart: a box a sub-topology, dotted lines for channels, stores as cylinders."""
    ids = {name: f"n{number}" for number, name in enumerate(topology.nodes)}
    store_ids = {name: f"s{number}" for number, name in enumerate(topology.stores)}
    lines = ["flowchart TD"]
    for sub in topology.sub_topologies:
        lines.append(f'    subgraph sub{sub.id}["Sub-topology {sub.id}"]')
        lines += [f"        {ids[name]}{_shape(topology, name)}" for name in sub.nodes]
        lines += [f'        {store_ids[name]}[("{_quoted(name)}")]' for name in sub.stores]
        lines.append("    end")
    lines += [f'    {store_ids[name]}[("{_quoted(name)}")]' for name in topology.stores if name in topology.global_stores]
    for node in topology.nodes.values():
        lines += [f"    {ids[parent]} --> {ids[node.name]}" for parent in node.parents]
        lines += [f"    {ids[node.name]} --- {store_ids[store]}" for store in node.stores if store in store_ids]
        if isinstance(node.operator, ChannelSink):
            channel = topology.channels[node.operator.channel]
            lines.append(f'    {ids[node.name]} -. "{_quoted(channel.name)}" .-> {ids[channel.source]}')
    return "\n".join(lines) + "\n"


def _sizes(topology: Topology) -> dict[str, int]:
    """How many nodes are below each one, itself included, counted once a path."""
    size: dict[str, int] = {}
    for name in reversed(list(topology.nodes)):  # parents are described before their children
        size[name] = 1 + sum(size[child] for child in topology.children[name])
    return size


def _sub_topology(topology: Topology, sub: SubTopology, size: dict[str, int]) -> str:
    nodes = "".join(f"    {_node(topology, name, size)}\n" for name in _ordered(sub.nodes, size))
    if any(isinstance(op := topology.nodes[name].operator, TopicSource) and op.is_global for name in sub.nodes):
        return f"Sub-topology: {sub.id} for global store (will not generate tasks)\n{nodes}"
    return f"Sub-topology: {sub.id}\n{nodes}\n"


def _node(topology: Topology, name: str, size: dict[str, int]) -> str:
    node = topology.nodes[name]
    after = f"\n      --> {_names(topology.children[name], size)}"
    before = f"\n      <-- {_names(node.parents, size)}"
    match node.operator:
        case TopicSource(topics=topics, pattern=pattern):
            read = pattern.pattern if pattern is not None else _list(topics)
            return f"Source: {name} (topics: {read}){after}"
        case ChannelSource(channel=channel):
            return f"Source: {name} (topics: [{channel}]){after}"
        case TopicSink(topic=str(topic)):
            return f"Sink: {name} (topic: {topic}){before}"
        case TopicSink(topic=choose):
            return f"Sink: {name} (extractor class: {getattr(choose, '__qualname__', choose)}){before}"
        case ChannelSink(channel=channel):
            return f"Sink: {name} (topic: {channel}){before}"
    return f"Processor: {name} (stores: {_list(node.stores)}){after}{before}"


def _ordered(names: Iterable[str], size: dict[str, int]) -> list[str]:
    return sorted(names, key=lambda name: (-size[name], name))


def _names(names: Iterable[str], size: dict[str, int]) -> str:
    return ", ".join(_ordered(names, size)) or "none"


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(sorted(names))}]"


def _shape(topology: Topology, name: str) -> str:
    match topology.nodes[name].operator:
        case TopicSource(topics=topics, pattern=pattern):
            read = pattern.pattern if pattern is not None else ", ".join(sorted(topics))
            return f'[/"{name}<br/>{_quoted(read)}"/]'
        case TopicSink(topic=topic):
            written = topic if isinstance(topic, str) else getattr(topic, "__qualname__", "chosen by a function")
            return f'[\\"{name}<br/>{_quoted(written)}"\\]'
        case ChannelSource() | ChannelSink():
            return f'(["{name}"])'
    return f'["{name}"]'


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
