"""The graph while it is being described. `freeze()` validates it and gives the immutable `Topology`.

Some decisions fall only at the end: whether a source table needs a store (something below looks up in it, or wants old
values), and whether a repartition may drop records without a key. So a node is kept as a function that makes its operator,
called by `freeze()`.

Names follow Kafka Streams' counter: one a builder, ten digits; a given name still burns the number that it replaces
(spec-runtime 6.4).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from raystreams.operators.errors import TopologyError
from raystreams.operators.feedback import with_feedback
from raystreams.operators.graph import (
    Channel,
    ChannelSink,
    ChannelSource,
    Node,
    Operator,
    TopicSink,
    TopicSource,
    Topology,
)
from raystreams.operators.late import late_channel_sink
from raystreams.operators.options import OnError, check_name, check_on_error
from raystreams.operators.table_draft import TableDraft
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.serdes import KeySerde, Serde


@dataclass(slots=True, kw_only=True)
class DraftNode:
    """A node to be: `make` gives its operator when everything below it is known."""

    name: str
    make: Callable[[], Operator]
    parents: list[str]
    stores: list[str | TableDraft] = field(default_factory=list)
    on_error: OnError | None = None
    tolerates_null_keys: bool = False


class GraphDraft:
    """What a StreamsBuilder has been told so far."""

    def __init__(self) -> None:
        self.nodes: dict[str, DraftNode] = {}
        self.stores: dict[str, StoreBuilder[Any]] = {}
        self.channels: dict[str, Channel] = {}
        self.tables: dict[str, TableDraft] = {}
        self.global_stores: set[str] = set()
        self.checks: list[Callable[[], None]] = []
        self.formerly: dict[str, str] = {}
        self.window_graces: dict[str, tuple[int, int]] = {}
        """By windowed aggregation: how long after a window's end its result is final, and how long before it its time may be."""
        self._generated_stores: set[str] = set()
        self._count = 0

    def number(self) -> str:
        """Burn the next number."""
        self._count += 1
        return f"{self._count - 1:010d}"

    def generated(self, prefix: str) -> str:
        """A generated name."""
        return prefix + self.number()

    def named(self, prefix: str, name: str | None) -> str:
        """The given name, checked, or a generated one; both burn a number."""
        generated = self.generated(prefix)
        return generated if name is None else check_name(name, "operator")

    def store_named(self, prefix: str, name: str | None) -> str:
        """The given name (burning nothing), or a generated one."""
        if name is not None:
            return check_name(name, "store")
        generated = self.generated(prefix)
        self._generated_stores.add(generated)
        return generated

    def store_of(self, node: str, suffix: str, name: str | None) -> str:
        """A store named after its operator, which itself has the given `name` or, for None, a generated one."""
        store = check_name(node + suffix, "store")
        if name is None:
            self._generated_stores.add(store)
        return store

    def add(
        self,
        name: str,
        make: Callable[[], Operator],
        parents: Iterable[str] = (),
        *,
        stores: Iterable[str | TableDraft] = (),
        on_error: OnError | None = None,
        tolerates_null_keys: bool = False,
    ) -> str:
        """Add a node below its parents; raises TopologyError if the name is taken. Returns the name."""
        if name in self.nodes:
            raise TopologyError(f"two operators are named {name!r}; names must be unique: change one name=")
        self.nodes[name] = DraftNode(
            name=name, make=make, parents=list(parents), stores=list(stores), on_error=check_on_error(on_error),
            tolerates_null_keys=tolerates_null_keys,
        )
        return name

    def add_store(self, builder: StoreBuilder[Any], *, formerly: str | None = None) -> str:
        """Add a store; the same builder again is fine, another one under its name is a TopologyError. Returns the name."""
        if formerly is not None:
            builder = dataclasses.replace(builder, formerly=formerly)
        known = self.stores.get(builder.name)
        if known is not None and known != builder:
            raise TopologyError(f"two stores are named {builder.name!r}; give one another name")
        self.stores[builder.name] = builder
        if formerly is not None:
            self.formerly[builder.name] = formerly
        return builder.name

    def add_table(self, table: TableDraft) -> TableDraft:
        """Register what is known of a table's store, old values and versions."""
        self.tables[table.node] = table
        return table

    def add_channel(self, channel: Channel) -> str:
        """Add a channel; raises TopologyError if its name is taken. Returns the name."""
        if channel.name in self.channels:
            raise TopologyError(f"two repartitions are named {channel.name!r}; give one of the operators another name=")
        self.channels[channel.name] = channel
        return channel.name

    def repartition(
        self,
        parent: str,
        base: str,
        key: KeySerde,
        value: Serde[Any],
        *,
        partitioner: Callable[[Any, Any, int], int] | None = None,
        drop_null_keys: bool = True,
        is_table: bool = False,
    ) -> str:
        """Send `parent`'s records to the partitions of their keys; returns the node that receives them.

        Null keys are dropped at the sink unless a join that tolerates them stands anywhere below (spec-runtime 4.4).
        """
        channel = f"{base}-repartition"
        sink, source = f"{channel}-sink", f"{channel}-source"
        for _ in range(3 if drop_null_keys else 2):
            self.number()
        self.add(
            sink,
            lambda: ChannelSink(channel=channel, keep_null_keys=not drop_null_keys or self._tolerant_below(source)),
            [parent],
        )
        self.add(source, lambda: ChannelSource(channel=channel))
        self.add_channel(
            Channel(name=channel, source=source, key=key, value=value, partitioner=partitioner, is_table=is_table)
        )
        return source

    def shared_repartition(self, parent: str, key: KeySerde, value: Serde[Any]) -> str:
        """The repartition that is named after its parent, made once; it burns its numbers each time, as Kafka's does."""
        source = f"{parent}-repartition-source"
        if source not in self.nodes:
            return self.repartition(parent, parent, key, value)
        for _ in range(3):
            self.number()
        return source

    def _tolerant_below(self, name: str) -> bool:
        reached = {name}
        for node in self.nodes.values():
            if reached.intersection(node.parents):
                if node.tolerates_null_keys:
                    return True
                reached.add(node.name)
        return False

    def freeze(self) -> Topology:
        """Check everything and give the topology; raises TopologyError."""
        if not self.nodes:
            raise TopologyError("the topology is empty: describe at least one stream or table before build()")
        for check in self.checks:
            check()
        self._connect_topics_read_and_written()
        nodes = {
            name: Node(
                name=name,
                operator=node.make(),
                parents=tuple(node.parents),
                stores=self._store_names(node),
                on_error=node.on_error,
            )
            for name, node in self.nodes.items()
        }
        used = {store for node in nodes.values() for store in node.stores} | self.global_stores
        topology = Topology(
            nodes=nodes,
            stores={name: builder for name, builder in self.stores.items() if name in used},
            channels=dict(self.channels),
            global_stores=frozenset(self.global_stores),
            unnamed_stateful=tuple(name for name in self.stores if name in used and name in self._generated_stores),
            formerly=dict(self.formerly),
        )
        return dataclasses.replace(topology, channels=with_feedback(topology))

    def _store_names(self, node: DraftNode) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for store in node.stores:
            for name in [store] if isinstance(store, str) else store.view_stores():
                if name not in self.stores:
                    known = ", ".join(map(repr, self.stores)) or "none"
                    raise TopologyError(f"{node.name!r} uses the store {name!r}, which was not added (stores: {known})")
                names[name] = None
        return tuple(names)

    def _connect_topics_read_and_written(self) -> None:
        """A topic that is written and read inside the topology becomes a channel, and needs no binding."""
        operators = {name: node.make() for name, node in self.nodes.items()}
        read = {
            topic: name
            for name, operator in operators.items()
            if isinstance(operator, TopicSource)
            for topic in operator.topics
        }
        for name, operator in operators.items():
            late: TopicSink | None = getattr(operator, "late_records_to", None)
            written = late if late is not None else operator
            if not isinstance(written, TopicSink) or not isinstance(written.topic, str) or written.topic not in read:
                continue
            topic, target = written.topic, read[written.topic]
            source = operators[target]
            assert isinstance(source, TopicSource)
            if topic not in self.channels:
                self.add_channel(
                    Channel(name=topic, source=target, key=source.key, value=source.value, is_table=source.is_table)
                )
            sink = f"{name}-channel" if late is None else late_channel_sink(name)
            if sink not in self.nodes:
                make = functools.partial(ChannelSink, channel=topic, takes_late=late is not None)
                self.add(sink, make, self.nodes[name].parents if late is None else [name])


def with_serdes(builder: StoreBuilder[Any], key: KeySerde, value: Serde[Any]) -> StoreBuilder[Any]:
    """The builder with these serdes where it has none of its own."""
    return dataclasses.replace(
        builder, key=builder.key if builder.key is not None else key, value=builder.value if builder.value is not None else value
    )
