"""The joins of a stream, by what it is joined with: names and types. Each kind is in its own file.

    stream.join(stream, joiner, windows=...)               stream_stream_join
    stream.join(table, joiner)                             stream_table_join: table.key = stream.key, as of the record's time
    stream.join(table, joiner, table_foreign_key=...)      stream_foreign_key_join: fk(row) = stream.key, 1:n (KIP-955)
    stream.join(table, joiner, stream_foreign_key=...)     stream_lookup_join: table.key = fk(value), n:1
    stream.join(global_table, joiner, key_selector=...)    stream_global_join

`left_join` takes the same; `outer_join` is for two streams. The side of a foreign key is in the keyword's name, never
guessed from types or arity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from raystreams.operators.hints import check_function
from raystreams.operators.options import Hint, Joined, OnError, StreamJoined, TableJoined
from raystreams.operators.windows import JoinWindows
from raystreams.stores.serdes import Serde
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream
    from raystreams.operators.ktable import GlobalKTable, KTable

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
KO = TypeVar("KO")
VO = TypeVar("VO")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin:
    """What was asked for, whatever the kind of join."""

    kind: Literal["inner", "left", "outer"]
    joiner: Callable[..., Any]
    with_key: bool
    windows: JoinWindows | None
    joined: Joined | None
    stream_joined: StreamJoined | None
    table_joined: TableJoined | None
    foreign_key_with_key: bool
    value: Hint
    name: str | None
    on_error: OnError | None

    @property
    def left(self) -> bool:
        """Whether records without a match come out too."""
        return self.kind != "inner"


class StreamJoins(Generic[K, V]):
    """The join methods of `KStream`."""

    @overload
    def join(self, other: KStream[K, VO], joiner: Callable[[V, VO], R], *, windows: JoinWindows, with_key: Literal[False] = False, stream_joined: StreamJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def join(self, other: KStream[K, VO], joiner: Callable[[K, V, VO], R], *, windows: JoinWindows, with_key: Literal[True], stream_joined: StreamJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def join(self, other: KTable[K, VO], joiner: Callable[[V, VO], R], *, with_key: Literal[False] = False, joined: Joined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def join(self, other: KTable[K, VO], joiner: Callable[[K, V, VO], R], *, with_key: Literal[True], joined: Joined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def join(self, other: KTable[KO, VO], joiner: Callable[..., R], *, table_foreign_key: Callable[..., K | None], foreign_key_with_key: bool = False, with_key: bool = False, joined: Joined | None = None, table_joined: TableJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def join(self, other: KTable[KO, VO], joiner: Callable[..., R], *, stream_foreign_key: Callable[..., KO | None], foreign_key_with_key: bool = False, with_key: bool = False, joined: Joined | None = None, table_joined: TableJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def join(self, other: GlobalKTable[KO, VO], joiner: Callable[..., R], *, key_selector: Callable[[K, V], KO | None], with_key: bool = False, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    def join(self, other: Any, joiner: Any, third: Any = None, **options: Any) -> KStream[Any, Any]:
        """Join with a stream (needs `windows`), a table or a global table; records without a match give nothing."""
        return self._join("inner", other, joiner, third, **options)

    @overload
    def left_join(self, other: KStream[K, VO], joiner: Callable[[V, VO | None], R], *, windows: JoinWindows, with_key: Literal[False] = False, stream_joined: StreamJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def left_join(self, other: KStream[K, VO], joiner: Callable[[K, V, VO | None], R], *, windows: JoinWindows, with_key: Literal[True], stream_joined: StreamJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def left_join(self, other: KTable[K, VO], joiner: Callable[[V, VO | None], R], *, with_key: Literal[False] = False, joined: Joined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def left_join(self, other: KTable[K, VO], joiner: Callable[[K, V, VO | None], R], *, with_key: Literal[True], joined: Joined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def left_join(self, other: KTable[KO, VO], joiner: Callable[[V, VO | None], R], *, table_foreign_key: Callable[[VO], K | None], foreign_key_with_key: Literal[False] = False, with_key: Literal[False] = False, joined: Joined | None = None, table_joined: TableJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def left_join(self, other: KTable[KO, VO], joiner: Callable[[V, VO | None], R], *, stream_foreign_key: Callable[[V], KO | None], foreign_key_with_key: Literal[False] = False, with_key: Literal[False] = False, joined: Joined | None = None, table_joined: TableJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def left_join(self, other: KTable[KO, VO], joiner: Callable[[K, V, VO | None], R], *, stream_foreign_key: Callable[[V], KO | None], foreign_key_with_key: Literal[False] = False, with_key: Literal[True], joined: Joined | None = None, table_joined: TableJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def left_join(self, other: KTable[KO, VO], joiner: Callable[..., R], *, table_foreign_key: Callable[..., K | None] = ..., stream_foreign_key: Callable[..., KO | None] = ..., foreign_key_with_key: bool, with_key: bool = False, joined: Joined | None = None, table_joined: TableJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def left_join(self, other: KTable[KO, VO], joiner: Callable[[VO], K | None], third: Callable[[V, VO | None], R], *, joined: Joined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def left_join(self, other: GlobalKTable[KO, VO], joiner: Callable[[V, VO | None], R], *, key_selector: Callable[[K, V], KO | None], with_key: Literal[False] = False, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def left_join(self, other: GlobalKTable[KO, VO], joiner: Callable[[K, V, VO | None], R], *, key_selector: Callable[[K, V], KO | None], with_key: Literal[True], value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    def left_join(self, other: Any, joiner: Any, third: Any = None, **options: Any) -> KStream[Any, Any]:
        """As `join`; records without a match come out once, joined with None.

        `left_join(table, extractor, joiner)` is KIP-955's own order and means `table_foreign_key=extractor`.
        """
        return self._join("left", other, joiner, third, **options)

    @overload
    def outer_join(self, other: KStream[K, VO], joiner: Callable[[V | None, VO | None], R], *, windows: JoinWindows, with_key: Literal[False] = False, stream_joined: StreamJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    @overload
    def outer_join(self, other: KStream[K, VO], joiner: Callable[[K, V | None, VO | None], R], *, windows: JoinWindows, with_key: Literal[True], stream_joined: StreamJoined | None = None, value: type[R] | Serde[R] | None = None, name: str | None = None, on_error: OnError | None = None) -> KStream[K, R]: ...
    def outer_join(self, other: Any, joiner: Any, **options: Any) -> KStream[Any, Any]:
        """Join two streams; records of either side without a match come out once, joined with None."""
        return self._join("outer", other, joiner, None, **options)

    def _join(
        self,
        kind: Literal["inner", "left", "outer"],
        other: Any,
        joiner: Any,
        third: Any,
        *,
        windows: JoinWindows | None = None,
        joined: Joined | None = None,
        stream_joined: StreamJoined | None = None,
        table_joined: TableJoined | None = None,
        table_foreign_key: Callable[..., Any] | None = None,
        stream_foreign_key: Callable[..., Any] | None = None,
        foreign_key_with_key: bool = False,
        key_selector: Callable[[Any, Any], Any] | None = None,
        with_key: bool = False,
        value: Hint = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        from raystreams.operators.kstream import KStream
        from raystreams.operators.ktable import GlobalKTable, KTable
        from raystreams.operators.stream_foreign_key_join import add_table_foreign_key_join
        from raystreams.operators.stream_global_join import add_stream_global_join
        from raystreams.operators.stream_lookup_join import add_stream_foreign_key_join
        from raystreams.operators.stream_stream_join import add_stream_stream_join
        from raystreams.operators.stream_table_join import add_stream_table_join

        assert isinstance(self, KStream)
        if third is not None:
            if table_foreign_key is not None or stream_foreign_key is not None:
                raise ValueError("the foreign key was given twice: by position and by keyword")
            joiner, table_foreign_key = third, joiner
        check_function(joiner, "joiner")
        join = StreamJoin(
            kind=kind, joiner=joiner, with_key=with_key, windows=windows, joined=joined, stream_joined=stream_joined,
            table_joined=table_joined, foreign_key_with_key=foreign_key_with_key, value=value, name=name, on_error=on_error,
        )
        if table_foreign_key is not None and stream_foreign_key is not None:
            raise ValueError("give table_foreign_key or stream_foreign_key, not both: whose value holds the other's key?")
        if isinstance(other, KStream):
            self._only(join, "two streams", windows=True)
            if windows is None:
                raise ValueError("a join of two streams needs windows=JoinWindows(...)")
            return add_stream_stream_join(self, other, join)
        if kind == "outer":
            raise ValueError("outer_join joins two streams, or two tables; with a table a stream has join and left_join")
        if isinstance(other, GlobalKTable):
            if table_foreign_key is not None:
                raise ValueError("a global table can't be joined by table_foreign_key: it has no index; use a table")
            selector = key_selector
            if stream_foreign_key is not None:
                check_function(stream_foreign_key, "stream_foreign_key")
                selector = stream_foreign_key if foreign_key_with_key else lambda _, v: stream_foreign_key(v)
            if selector is None:
                raise ValueError("a join with a global table needs key_selector=lambda key, value: ...")
            check_function(selector, "key_selector")
            self._only(join, "a stream and a global table")
            return add_stream_global_join(self, other, selector, join)
        if not isinstance(other, KTable):
            raise TypeError(f"a stream is joined with a KStream, KTable or GlobalKTable, got {other!r}")
        if other._draft is not self._draft:
            raise ValueError("the stream and the table must come from the same StreamsBuilder")
        if key_selector is not None:
            raise ValueError("key_selector is for global tables; with a table say stream_foreign_key=lambda value: ...")
        self._only(join, "a stream and a table", joined=True)
        if table_foreign_key is not None:
            check_function(table_foreign_key, "table_foreign_key")
            return add_table_foreign_key_join(self, other, table_foreign_key, join)
        if stream_foreign_key is not None:
            check_function(stream_foreign_key, "stream_foreign_key")
            return add_stream_foreign_key_join(self, other, stream_foreign_key, join)
        return add_stream_table_join(self, other, join)

    def _only(self, join: StreamJoin, what: str, *, windows: bool = False, joined: bool = False) -> None:
        if join.windows is not None and not windows:
            raise ValueError(f"windows= is for joins of two streams, not of {what}")
        if join.joined is not None and not joined:
            raise ValueError(f"joined= is for joins of a stream and a table, not of {what}")
