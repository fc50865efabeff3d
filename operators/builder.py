"""`StreamsBuilder`: where a description begins, and where it ends in an immutable `Topology`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, overload

from raystreams.operators.draft import GraphDraft
from raystreams.operators.errors import TopologyError
from raystreams.operators.graph import TopicSource, Topology
from raystreams.operators.kstream import KStream
from raystreams.operators.ktable import GlobalKTable, KTable
from raystreams.operators.options import Consumed, Materialized, Topic, check_name
from raystreams.operators.table_source import add_table
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.serdes import KeySerde, ValueSerde, key_serde, value_serde
from raystreams.stores.values import duration_milliseconds
from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)


class StreamsBuilder:
    """Describes a topology. A topic is read once: the same `stream` twice is shared, `table` on a topic read before is an error."""

    def __init__(self) -> None:
        self._draft = GraphDraft()
        self._streams: dict[tuple[str, ...] | re.Pattern[str], tuple[str, Consumed | None]] = {}
        self._tables: set[str] = set()

    @overload
    def stream(self, topic: str | Sequence[str] | re.Pattern[str], *, consumed: Consumed | None = None, name: str | None = None) -> KStream[Any, Any]: ...
    @overload
    def stream(self, topic: Topic[K, V], *, consumed: Consumed | None = None, name: str | None = None) -> KStream[K, V]: ...
    def stream(self, topic: Any, *, consumed: Consumed | None = None, name: str | None = None) -> KStream[Any, Any]:
        """A stream of a topic's records; also of several topics, or of all that match a pattern."""
        topics, pattern, key, value = _topics(topic)
        given: tuple[str, ...] | re.Pattern[str] = pattern or tuple(sorted(topics))
        if given in self._streams:
            node, known = self._streams[given]
            if (known or Consumed()) != (consumed or Consumed()):
                raise TopologyError(f"topic {topics or pattern} is read twice with different settings; read it once and share the stream")
            return KStream(self._draft, node, key, value)
        if consumed is not None and consumed.reorder is not None:
            raise ValueError("reorder= is for tables; sort a stream with to_table(grace=...)")
        self._check_not_read(topics)
        node = self._add_source("KSTREAM-SOURCE-", name, topics, pattern, key, value, consumed)
        self._streams[given] = (node, consumed)
        return KStream(self._draft, node, key, value)

    @overload
    def table(self, topic: str, *, consumed: Consumed | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None) -> KTable[Any, Any]: ...
    @overload
    def table(self, topic: Topic[K, V], *, consumed: Consumed | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None) -> KTable[K, V]: ...
    def table(self, topic: Any, *, consumed: Consumed | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None) -> KTable[Any, Any]:
        """A table whose changelog the topic is: the last value of each key, None deletes.

        It is stored if `materialized` names a store, or when something below needs to look up in it.
        """
        topics, _, key, value = _topics(topic)
        self._check_not_read(topics)
        self._tables.update(topics)
        store = self._draft.store_named(f"{topics[0]}-STATE-STORE-", materialized.name if materialized else None)
        source = self._add_source(
            "KSTREAM-SOURCE-", None if name is None else f"{name}-source", topics, None, key, value, consumed, is_table=True
        )
        node = self._draft.named("KTABLE-SOURCE-", name)
        if consumed is not None and consumed.reorder is not None:
            from raystreams.operators.reorder import add_reorder

            grace = duration_milliseconds(consumed.reorder, what="reorder")
            source = add_reorder(self._draft, source, f"{node}-reorder", grace, key, value)
        return add_table(self._draft, source, node, store, materialized, key, value)

    @overload
    def global_table(self, topic: str, *, consumed: Consumed | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None) -> GlobalKTable[Any, Any]: ...
    @overload
    def global_table(self, topic: Topic[K, V], *, consumed: Consumed | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None) -> GlobalKTable[K, V]: ...
    def global_table(self, topic: Any, *, consumed: Consumed | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None) -> GlobalKTable[Any, Any]:
        """A table of which every task has a full copy. It is not aligned with streams by time, so it can't be versioned."""
        topics, _, key, value = _topics(topic)
        self._check_not_read(topics)
        self._tables.update(topics)
        if materialized is not None and materialized.kind == "versioned":
            raise TopologyError(
                f"the global table of {topics[0]!r} can't be versioned: global tables are not aligned with streams by time, "
                "so rows as of a time would promise what they can't keep. Use builder.table, or Materialized.key_value"
            )
        if consumed is not None and consumed.reorder is not None:
            raise ValueError("reorder= is for tables; a global table is not aligned by time")
        store = self._draft.store_named(f"{topics[0]}-STATE-STORE-", materialized.name if materialized else None)
        source = self._add_source(
            "KSTREAM-SOURCE-", None if name is None else f"{name}-source", topics, None, key, value, consumed,
            is_table=True, is_global=True,
        )
        node = self._draft.named("KTABLE-SOURCE-", name)
        table = add_table(self._draft, source, node, store, materialized, key, value)
        table._table.is_global = True
        table._table.materialize()
        assert table._table.store is not None
        self._draft.global_stores.add(table._table.store)
        return GlobalKTable(table)

    def add_state_store(self, builder: StoreBuilder[Any]) -> StreamsBuilder:
        """Add a store that processors connect to with `stores=[...]`. Returns the builder itself."""
        self._draft.add_store(builder)
        return self

    def add_global_store(
        self, builder: StoreBuilder[Any], topic: str | Topic[Any, Any], supplier: Callable[[], Any], *, consumed: Consumed | None = None, name: str | None = None
    ) -> StreamsBuilder:
        """Add a store of which every task has a full copy, kept by a processor that receives the topic's records."""
        from raystreams.operators.processor import add_global_processor

        topics, _, key, value = _topics(topic)
        self._check_not_read(topics)
        self._tables.update(topics)
        source = self._add_source("KSTREAM-SOURCE-", None, topics, None, key, value, consumed, is_table=True, is_global=True)
        self._draft.global_stores.add(self._draft.add_store(builder))
        add_global_processor(self._draft, source, supplier, builder, self._draft.named("KTABLE-SOURCE-", name))
        return self

    def build(self) -> Topology:
        """Check the description and return the topology; raises TopologyError."""
        return self._draft.freeze()

    def _add_source(
        self, prefix: str, name: str | None, topics: tuple[str, ...], pattern: re.Pattern[str] | None, key: KeySerde,
        value: ValueSerde[Any], consumed: Consumed | None, *, is_table: bool = False, is_global: bool = False,
    ) -> str:
        operator = TopicSource(
            topics=topics, pattern=pattern, key=key, value=value, consumed=consumed or Consumed(), is_table=is_table,
            is_global=is_global,
        )
        node = self._draft.named(prefix, name)
        return self._draft.add(node, lambda: operator, on_error=operator.consumed.on_error)

    def _check_not_read(self, topics: tuple[str, ...]) -> None:
        read = {topic for given in self._streams if isinstance(given, tuple) for topic in given} | self._tables
        for topic in topics:
            if topic in read:
                raise TopologyError(f"topic {topic!r} is already read by another stream or table; read it once and share that object")


def _topics(topic: Any) -> tuple[tuple[str, ...], re.Pattern[str] | None, KeySerde, ValueSerde[Any]]:
    """Names, pattern and serdes of what `stream` and `table` take."""
    if isinstance(topic, re.Pattern):
        return (), topic, key_serde(None), value_serde(None)
    given = [topic] if isinstance(topic, (str, Topic)) else list(topic)
    if not given:
        raise ValueError("give at least one topic")
    topics = [one if isinstance(one, Topic) else Topic(one) for one in given]
    key, value = key_serde(topics[0].key), value_serde(topics[0].value)
    for other in topics[1:]:
        if key_serde(other.key).description != key.description or value_serde(other.value).description != value.description:
            raise TopologyError(f"topics {topics[0].name!r} and {other.name!r} have different types; read them apart and merge")
    return tuple(check_name(one.name, "topic") for one in topics), None, key, value
