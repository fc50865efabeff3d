"""The join of a stream with a table on the same key: inner and left (spec-joins 5).

Only stream records give outputs, at most one each, with the record's own key, time and headers; what the table does later
changes nothing that was given out. The row is the latest one, or, of a versioned table, the one that was valid at the record's
time (included). Older than the table's history is no match, unless the latest row was valid then already.

    null value   dropped, "null value"
    null key     inner: dropped, "null key"; left: J(v, None) at once
    no match     inner: nothing, not counted; left: J(v, None)

With a grace period (KIP-923) a record waits for late rows of a versioned table: see `grace_buffer.py`. A null key has no row to
wait for. Whether the look-up is as of a time is what the table's view says: a filter or map without a store of its own is as
versioned as the table above it, the result of a join is not.

Where the stream's key was changed, its records are routed first; for a left join those without a key stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.grace_buffer import Waiting, add_waiting, checked_grace, joined_records
from raystreams.operators.hints import value_of
from raystreams.operators.joiners import lookup_join
from raystreams.operators.record import Process

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream
    from raystreams.operators.kstream_joins import StreamJoin
    from raystreams.operators.ktable import KTable


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTableJoin:
    """Joins each record with its key's row."""

    table: str
    joiner: Callable[..., Any]
    with_key: bool
    left: bool
    wait: Waiting | None

    def start(self, node: NodeRuntime) -> Process:
        view, left = node.view(self.table), self.left
        versioned, get, get_as_of = view.versioned, view.get, view.get_as_of

        def find(key: Any, value: Any, timestamp: int) -> Any:
            return None if key is None else get(key)

        def find_as_of(key: Any, value: Any, timestamp: int) -> Any:
            return None if key is None else get_as_of(key, timestamp)

        join = lookup_join(node, find_as_of if versioned else find, self.joiner, with_key=self.with_key, left=left)
        return joined_records(node, join, self.wait, left=left)


def add_stream_table_join(
    stream: KStream[Any, Any], table: KTable[Any, Any], join: StreamJoin
) -> KStream[Any, Any]:
    """`KStream.join` and `left_join` with a table."""
    from raystreams.operators.kstream import KStream

    draft = stream._draft
    grace = checked_grace(table, join.joined)
    keyed = stream._keyed(join.name or stream._node)
    node = draft.named("KSTREAM-LEFTJOIN-" if join.left else "KSTREAM-JOIN-", join.name)
    table._table.materialize()
    wait = add_waiting(draft, node, join.name, grace, keyed)
    operator = StreamTableJoin(table=table._node, joiner=join.joiner, with_key=join.with_key, left=join.left, wait=wait)
    draft.add(
        node,
        lambda: operator,
        [keyed._node],
        stores=[table._table] if wait is None else [table._table, wait.store],
        on_error=join.on_error,
        tolerates_null_keys=join.left,
    )
    return KStream(draft, node, keyed._key, value_of(join.joiner, join.value))
