"""The stream half of the DSL: names and types. What each operator does is in its own file.

A stream remembers whether its key was changed since the last repartition; whatever relies on the key then goes through a
repartition channel first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from raystreams.operators import stateless
from raystreams.operators.branched import BranchedKStream
from raystreams.operators.draft import GraphDraft
from raystreams.operators.graph import TopicSink
from raystreams.operators.hints import check_function, element_of, key_of, pair_of, value_of
from raystreams.operators.kstream_joins import StreamJoins
from raystreams.operators.options import Hint, Materialized, OnError, Produced, Repartitioned, Topic, check_name
from raystreams.stores.serdes import KeySerde, Serde, ValueSerde, key_serde, value_serde
from raystreams.stores.values import Duration
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from raystreams.operators.grouped import KGroupedStream
    from raystreams.operators.ktable import KTable
    from raystreams.operators.processor import Processor
    from raystreams.stores.builders import StoreBuilder

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
K2 = TypeVar("K2")
V2 = TypeVar("V2")
KD = TypeVar("KD", default=Any)
VD = TypeVar("VD", default=Any)


class KStream(StreamJoins[K, V], Generic[K, V]):
    """A stream of records: facts, each on its own."""

    def __init__(
        self, draft: GraphDraft, node: str, key: KeySerde, value: ValueSerde[Any], *, key_changed: bool = False
    ) -> None:
        self._draft, self._node, self._key, self._value, self._key_changed = draft, node, key, value, key_changed

    # ---- record by record

    def filter(
        self, predicate: Callable[[K, V], bool], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K, V]:
        """Keep records for which `predicate(key, value)` holds."""
        return self._filter(predicate, True, name, on_error)

    def filter_not(
        self, predicate: Callable[[K, V], bool], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K, V]:
        """Keep records for which `predicate(key, value)` does not hold."""
        return self._filter(predicate, False, name, on_error)

    def map(
        self,
        mapper: Callable[[K, V], tuple[K2, V2]],
        *,
        key: type[K2] | Serde[K2] | None = None,
        value: type[V2] | Serde[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V2]:
        """A new key and value for each record. Returning None is an error; to drop records use `filter`."""
        check_function(mapper, "mapper")
        serdes = pair_of(mapper, key, value)
        return self._below("KSTREAM-MAP-", name, stateless.Map(mapper=mapper), on_error, serdes, key_changed=True)

    @overload
    def map_values(
        self, mapper: Callable[[V], V2], *, with_key: Literal[False] = False, value: type[V2] | Serde[V2] | None = None,
        name: str | None = None, on_error: OnError | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2], *, with_key: Literal[True], value: type[V2] | Serde[V2] | None = None,
        name: str | None = None, on_error: OnError | None = None,
    ) -> KStream[K, V2]: ...
    def map_values(
        self, mapper: Callable[..., Any], *, with_key: bool = False, value: Hint = None, name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """A new value for each record; null values are given to the mapper too."""
        check_function(mapper, "mapper")
        operator = stateless.MapValues(mapper=mapper, with_key=with_key)
        return self._below("KSTREAM-MAPVALUES-", name, operator, on_error, (self._key, value_of(mapper, value)))

    def flat_map(
        self,
        mapper: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: type[K2] | Serde[K2] | None = None,
        value: type[V2] | Serde[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V2]:
        """Any number of (key, value) pairs for each record, in the order given."""
        check_function(mapper, "mapper")
        serdes = (key_serde(key), value_serde(value))
        return self._below("KSTREAM-FLATMAP-", name, stateless.FlatMap(mapper=mapper), on_error, serdes, key_changed=True)

    def flat_map_values(
        self, mapper: Callable[..., Iterable[V2]], *, with_key: bool = False, value: type[V2] | Serde[V2] | None = None,
        name: str | None = None, on_error: OnError | None = None,
    ) -> KStream[K, V2]:
        """Any number of values for each record, in the order given. The mapper takes the value, `with_key` (key, value)."""
        check_function(mapper, "mapper")
        operator = stateless.FlatMapValues(mapper=mapper, with_key=with_key)
        serde = value_serde(value if value is not None else element_of(mapper))
        return self._below("KSTREAM-FLATMAPVALUES-", name, operator, on_error, (self._key, serde))

    def select_key(
        self, selector: Callable[[K, V], K2 | None], *, key: type[K2] | Serde[K2] | None = None, name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K2, V]:
        """A new key for each record; None is a null key."""
        check_function(selector, "selector")
        serdes = (key_of(selector, key), self._value)
        operator = stateless.SelectKey(selector=selector)
        return self._below("KSTREAM-KEY-SELECT-", name, operator, on_error, serdes, key_changed=True)

    def peek(
        self, action: Callable[[K, V], Any], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K, V]:
        """Call `action(key, value)` and pass the record on unchanged."""
        check_function(action, "action")
        return self._below("KSTREAM-PEEK-", name, stateless.Peek(action=action), on_error)

    def for_each(
        self, action: Callable[[K, V], Any], *, name: str | None = None, on_error: OnError | None = None
    ) -> None:
        """Call `action(key, value)` with each record; ends the stream. After a crash it may be called again."""
        check_function(action, "action")
        self._below("KSTREAM-FOREACH-", name, stateless.Peek(action=action), on_error)

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """The records of both streams; no order between them is promised beyond that of their times."""
        if other._draft is not self._draft:
            raise ValueError("both streams must come from the same StreamsBuilder")
        node = self._draft.named("KSTREAM-MERGE-", name)
        self._draft.add(node, stateless.PassThrough, [self._node, other._node])
        changed = self._key_changed or other._key_changed
        value = self._value if self._value.description == other._value.description else value_serde(None)
        return KStream(self._draft, node, self._key, value, key_changed=changed)

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Begin to split the stream: `.branch(predicate)` ..., then `.default_branch()` or `.no_default_branch()`."""
        return BranchedKStream(self, self._draft.named("KSTREAM-BRANCH-", name))

    # ---- routing, tables and groups

    def repartition(
        self, repartitioned: Repartitioned | None = None, *, name: str | None = None
    ) -> KStream[K, V]:
        """Route each record to the partition of its key, always. Null keys are dropped unless a join below takes them."""
        base = self._draft.named("KSTREAM-REPARTITION-", name)
        partitioner = repartitioned.partitioner if repartitioned else None
        node = self._draft.repartition(self._node, base, self._key, self._value, partitioner=partitioner)
        return KStream(self._draft, node, self._key, self._value)

    def to_table(
        self, *, materialized: Materialized[Any, Any] | None = None, grace: Duration | None = None, name: str | None = None
    ) -> KTable[K, V]:
        """Read the stream as the changelog of a table: the last value of each key, None deletes.

        `grace` sorts the records by time, per key, and lets them wait that long for older ones (KIP-914's long-term vision).
        """
        from raystreams.operators.table_source import to_table

        return to_table(self, materialized, grace, name)

    def group_by_key(self, *, name: str | None = None) -> KGroupedStream[K, V]:
        """Group by the key; repartitions only if the key was changed. `name` names the repartition channel."""
        from raystreams.operators.grouped import KGroupedStream

        return KGroupedStream(self, name)

    def group_by(
        self, selector: Callable[[K, V], K2 | None], *, key: type[K2] | Serde[K2] | None = None, name: str | None = None
    ) -> KGroupedStream[K2, V]:
        """Group by what `selector(key, value)` returns; always repartitions. Records with a null group are left out."""
        from raystreams.operators.grouped import KGroupedStream

        return KGroupedStream(self.select_key(selector, key=key), name)

    def to(
        self,
        topic: str | Topic[K, V] | Callable[[K, V, Any], str],
        *,
        produced: Produced | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Write the stream to a topic, or to the topic that `topic(key, value, context)` names."""
        key, value, target = self._key, self._value, topic
        if isinstance(topic, Topic):
            key = key_serde(topic.key) if topic.key is not None else key
            value = value_serde(topic.value) if topic.value is not None else value
            target = topic.name
        elif isinstance(topic, str):
            check_name(topic, "topic")
        else:
            check_function(topic, "topic")
        partitioner = produced.partitioner if produced else None
        sink = TopicSink(topic=target, key=key, value=value, partitioner=partitioner)  # type: ignore[arg-type]  # no Topic
        self._draft.add(self._draft.named("KSTREAM-SINK-", name), lambda: sink, [self._node], on_error=on_error)

    # ---- processors

    def process(
        self,
        supplier: Callable[[], Processor[K, V]],
        *,
        stores: Sequence[str | StoreBuilder[Any] | Materialized[Any, Any]] = (),
        key: type[KD] | Serde[KD] | None = None,
        value: type[VD] | Serde[VD] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[KD, VD]:
        """Hand each record to a processor of the user's; it may forward any records (KIP-820)."""
        from raystreams.operators.processor import add_processor

        return add_processor(self, supplier, stores, key, value, name, on_error, fixed_key=False)

    def process_values(
        self,
        supplier: Callable[[], Processor[K, V]],
        *,
        stores: Sequence[str | StoreBuilder[Any] | Materialized[Any, Any]] = (),
        value: type[VD] | Serde[VD] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, VD]:
        """As `process`, with a processor that can't change keys, so that nothing needs to be repartitioned after it."""
        from raystreams.operators.processor import add_processor

        return add_processor(self, supplier, stores, None, value, name, on_error, fixed_key=True)

    def deduplicate(
        self, id: Callable[[K, V], Any], *, within: Duration, name: str | None = None
    ) -> KStream[K, V]:
        """Drop records whose `id(key, value)` was seen under the same key less than `within` of event time before."""
        from raystreams.operators.deduplicate import deduplicate

        return deduplicate(self, id, within, name)

    # ---- inside

    def _below(
        self,
        prefix: str,
        name: str | None,
        operator: Any,
        on_error: OnError | None = None,
        serdes: tuple[KeySerde, ValueSerde[Any]] | None = None,
        *,
        key_changed: bool = False,
        stores: Sequence[str] = (),
        tolerates_null_keys: bool = False,
    ) -> KStream[Any, Any]:
        node = self._draft.named(prefix, name)
        self._draft.add(
            node, lambda: operator, [self._node], on_error=on_error, stores=stores, tolerates_null_keys=tolerates_null_keys
        )
        key, value = serdes or (self._key, self._value)
        return KStream(self._draft, node, key, value, key_changed=key_changed or self._key_changed)

    def _filter(
        self, predicate: Callable[[K, V], bool], keep: bool, name: str | None, on_error: OnError | None
    ) -> KStream[K, V]:
        check_function(predicate, "predicate")
        return self._below("KSTREAM-FILTER-", name, stateless.Filter(predicate=predicate, keep=keep), on_error)

    def _keyed(self, base: str) -> KStream[K, V]:
        """This stream where its keys belong: itself, or behind a repartition named after `base` if the key was changed.

        Joins without a name name it after this stream, and share it.
        """
        if not self._key_changed:
            return self
        if base == self._node:
            node = self._draft.shared_repartition(self._node, self._key, self._value)
        else:
            node = self._draft.repartition(self._node, base, self._key, self._value)
        return KStream(self._draft, node, self._key, self._value)
