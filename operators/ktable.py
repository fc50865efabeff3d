"""The table half of the DSL: names and types. What each operator does is in its own file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from raystreams.operators.draft import GraphDraft
from raystreams.operators.hints import check_function
from raystreams.operators.options import Hint, Materialized, OnError, Suppressed, TableJoined
from raystreams.operators.table_draft import TableDraft
from raystreams.stores.serdes import KeySerde, Serde, ValueSerde
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from raystreams.operators.grouped_table import KGroupedTable
    from raystreams.operators.kstream import KStream

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
K2 = TypeVar("K2")
V2 = TypeVar("V2")
KO = TypeVar("KO")
VO = TypeVar("VO")
R = TypeVar("R")


class GlobalKTable(Generic[K, V]):
    """A table of which every task has a full copy; streams join it by any key, without repartitioning."""

    def __init__(self, table: KTable[K, V]) -> None:
        self._table_node, self._draft, self._key, self._value = table, table._draft, table._key, table._value

    @property
    def queryable_store_name(self) -> str | None:
        """The store's name if the user gave one."""
        return self._table_node.queryable_store_name


class KTable(Generic[K, V]):
    """A table: the latest row of each key, and its changes."""

    def __init__(
        self, draft: GraphDraft, node: str, key: KeySerde, value: ValueSerde[Any], table: TableDraft,
        materialized: Materialized[Any, Any] | None = None,
    ) -> None:
        self._draft, self._node, self._key, self._value, self._table = draft, node, key, value, table
        self._materialized = materialized

    @property
    def queryable_store_name(self) -> str | None:
        """The store's name if the user gave one."""
        return self._materialized.name if self._materialized is not None else None

    def filter(
        self, predicate: Callable[[K, V], bool], *, materialized: Materialized[Any, Any] | None = None, name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """Keep rows for which `predicate(key, value)` holds; a row that fails is deleted below. Not called for deletions."""
        from raystreams.operators.table_stateless import add_filter

        return add_filter(self, check_function(predicate, "predicate"), True, materialized, name, on_error)

    def filter_not(
        self, predicate: Callable[[K, V], bool], *, materialized: Materialized[Any, Any] | None = None, name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """Keep rows for which `predicate(key, value)` does not hold."""
        from raystreams.operators.table_stateless import add_filter

        return add_filter(self, check_function(predicate, "predicate"), False, materialized, name, on_error)

    @overload
    def map_values(
        self, mapper: Callable[[V], V2], *, with_key: Literal[False] = False, value: type[V2] | Serde[V2] | None = None,
        materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2], *, with_key: Literal[True], value: type[V2] | Serde[V2] | None = None,
        materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[K, V2]: ...
    def map_values(
        self, mapper: Callable[..., Any], *, with_key: bool = False, value: Hint = None,
        materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[Any, Any]:
        """A new value for each row. Not called for deletions; returning None deletes."""
        from raystreams.operators.table_stateless import add_map_values

        return add_map_values(self, check_function(mapper, "mapper"), with_key, value, materialized, name, on_error)

    def transform_values(
        self, supplier: Callable[[], Any], *, stores: Sequence[Any] = (), value: Hint = None,
        materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[K, Any]:
        """Stateful mapping: `supplier()` gives an object with `transform(key, value)`, called for deletions too (KIP-149)."""
        from raystreams.operators.table_transform import add_transform_values

        return add_transform_values(self, check_function(supplier, "supplier"), stores, value, materialized, name, on_error)

    def to_stream(self, *, name: str | None = None) -> KStream[K, V]:
        """The changes as a stream: each row's new value, None where it is deleted."""
        from raystreams.operators.table_stateless import add_to_stream

        return add_to_stream(self, name)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Hold updates back until a time limit or until their window closes (KIP-328). Not for versioned tables."""
        from raystreams.operators.suppress import add_suppress

        if not isinstance(suppressed, Suppressed):
            raise ValueError(f"suppress takes Suppressed.until_window_closes() or until_time_limit(...), got {suppressed!r}")
        return add_suppress(self, suppressed, name)

    def group_by(
        self, selector: Callable[[K, V], tuple[K2 | None, V2 | None] | None], *, key: type[K2] | Serde[K2] | None = None,
        value: type[V2] | Serde[V2] | None = None, name: str | None = None, on_error: OnError | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Group by what `selector(key, value)` returns, a (group key, value) pair or None; always repartitions."""
        from raystreams.operators.grouped_table import KGroupedTable

        return KGroupedTable(self, check_function(selector, "selector"), key, value, name, on_error)

    @overload
    def join(self, other: KTable[K, VO], joiner: Callable[[V, VO], R], *, with_key: Literal[False] = False, value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    @overload
    def join(self, other: KTable[K, VO], joiner: Callable[[K, V, VO], R], *, with_key: Literal[True], value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    @overload
    def join(self, other: KTable[KO, VO], joiner: Callable[..., R], *, foreign_key: Callable[..., KO | None], foreign_key_with_key: bool = False, with_key: bool = False, table_joined: TableJoined | None = None, value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    @overload
    def join(self, other: Sequence[KTable[K, Any]], joiner: Callable[..., R], *, with_key: bool = False, value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    def join(self, other: Any, joiner: Callable[..., Any], **options: Any) -> KTable[Any, Any]:
        """Join with the table of the same key, or by `foreign_key` with one of another; rows without a match give nothing.

        A list of tables joins all of them on the same key in one step, without stores in between.
        """
        return self._join("inner", other, joiner, **options)

    @overload
    def left_join(self, other: KTable[K, VO], joiner: Callable[[V, VO | None], R], *, with_key: Literal[False] = False, value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    @overload
    def left_join(self, other: KTable[K, VO], joiner: Callable[[K, V, VO | None], R], *, with_key: Literal[True], value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    @overload
    def left_join(self, other: KTable[KO, VO], joiner: Callable[[V, VO | None], R], *, foreign_key: Callable[[V], KO | None], foreign_key_with_key: Literal[False] = False, with_key: Literal[False] = False, table_joined: TableJoined | None = None, value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    @overload
    def left_join(self, other: KTable[KO, VO], joiner: Callable[..., R], *, foreign_key: Callable[..., KO | None], foreign_key_with_key: bool = False, with_key: bool = False, table_joined: TableJoined | None = None, value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    @overload
    def left_join(self, other: Sequence[KTable[K, Any]], joiner: Callable[..., R], *, with_key: bool = False, value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    def left_join(self, other: Any, joiner: Callable[..., Any], **options: Any) -> KTable[Any, Any]:
        """As `join`; rows of this table without a match are joined with None."""
        return self._join("left", other, joiner, **options)

    @overload
    def outer_join(self, other: KTable[K, VO], joiner: Callable[[V | None, VO | None], R], *, with_key: Literal[False] = False, value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    @overload
    def outer_join(self, other: KTable[K, VO], joiner: Callable[[K, V | None, VO | None], R], *, with_key: Literal[True], value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    @overload
    def outer_join(self, other: Sequence[KTable[K, Any]], joiner: Callable[..., R], *, with_key: bool = False, value: type[R] | Serde[R] | None = None, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None) -> KTable[K, R]: ...
    def outer_join(self, other: Any, joiner: Callable[..., Any], **options: Any) -> KTable[Any, Any]:
        """As `join`; rows of either table without a match are joined with None."""
        return self._join("outer", other, joiner, **options)

    def _join(
        self,
        kind: Literal["inner", "left", "outer"],
        other: Any,
        joiner: Callable[..., Any],
        *,
        foreign_key: Callable[..., Any] | None = None,
        foreign_key_with_key: bool = False,
        with_key: bool = False,
        table_joined: TableJoined | None = None,
        value: Hint = None,
        materialized: Materialized[Any, Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Any, Any]:
        from raystreams.operators.foreign_key_join import add_foreign_key_join
        from raystreams.operators.table_many_join import add_many_table_join
        from raystreams.operators.table_table_join import TableJoin, add_table_join

        others = list(other) if isinstance(other, (list, tuple)) else [other]
        for table in others:
            if not isinstance(table, KTable):
                raise TypeError(f"a table is joined with a KTable or a list of them, got {table!r}")
            if table._draft is not self._draft:
                raise ValueError("both tables must come from the same StreamsBuilder")
        check_function(joiner, "joiner")
        join = TableJoin(
            kind=kind, joiner=joiner, with_key=with_key, value=value, materialized=materialized, name=name, on_error=on_error
        )
        if foreign_key is not None:
            if isinstance(other, (list, tuple)):
                raise ValueError("a join by foreign_key takes one table; chain the joins for several")
            if kind == "outer":
                raise ValueError("there is no outer join by foreign_key (as in Kafka Streams); use join or left_join")
            check_function(foreign_key, "foreign_key")
            return add_foreign_key_join(self, other, foreign_key, foreign_key_with_key, table_joined, join)
        if table_joined is not None:
            raise ValueError("table_joined= is for joins by foreign_key")
        if isinstance(other, (list, tuple)):
            return add_many_table_join(self, others, join)
        return add_table_join(self, other, join)
