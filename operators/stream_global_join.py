"""The join of a stream with a global table, by any key that can be made of the record: inner and left (spec-joins 6).

`key_selector(key, value)` says which row. Every task has all rows, so nothing is routed; the output keeps the stream's key
(which may be null), time and headers. The row is always the latest one: a global table is not aligned with the stream by time.

    null value           dropped, "null value"; the selector is not called
    selector gives None  inner: dropped, "null key"; left: J(v, None)  (KAFKA-19208)
    no match             inner: nothing, not counted; left: J(v, None)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.hints import value_of
from raystreams.operators.joiners import lookup_join
from raystreams.operators.record import Headers, Process

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream
    from raystreams.operators.kstream_joins import StreamJoin
    from raystreams.operators.ktable import GlobalKTable


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGlobalJoin:
    """Joins each record with the row that `selector` names. A joiner with key gets the stream's key."""

    table: str
    selector: Callable[[Any, Any], Any]
    joiner: Callable[..., Any]
    with_key: bool
    left: bool

    def start(self, node: NodeRuntime) -> Process:
        drop, get, selector, left = node.drop, node.view(self.table).get, self.selector, self.left

        def find(key: Any, value: Any, timestamp: int) -> Any:
            other_key = selector(key, value)
            if other_key is not None:
                return get(other_key)
            return None if left else drop("null key")

        join = lookup_join(node, find, self.joiner, with_key=self.with_key, left=left)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None:
                return drop("null value")
            join(key, value, timestamp, headers)

        return process


def add_stream_global_join(
    stream: KStream[Any, Any], table: GlobalKTable[Any, Any], selector: Callable[[Any, Any], Any], join: StreamJoin
) -> KStream[Any, Any]:
    """`KStream.join` and `left_join` with a global table."""
    if table._draft is not stream._draft:
        raise ValueError("the stream and the global table must come from the same StreamsBuilder")
    operator = StreamGlobalJoin(
        table=table._table_node._node, selector=selector, joiner=join.joiner, with_key=join.with_key, left=join.left
    )
    # Kafka's prefix, for inner joins too.
    return stream._below(
        "KSTREAM-LEFTJOIN-", join.name, operator, join.on_error, (stream._key, value_of(join.joiner, join.value)),
        tolerates_null_keys=join.left,
    )  # fmt: skip
