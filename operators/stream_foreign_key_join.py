"""The join of a stream with a table whose rows point at the stream's key, 1:n (KIP-955), inner and left.

    table's partition                     partition of the foreign key = of the stream's key
    -----------------                     -------------------------------------------------
    table change                            stream record
       |                                       |   (routed by its key, if that was changed)
    index send ------ IndexUpdate -------> index receive --> index --> join ---> one result a matching row
                  (the row itself)

A stream record is joined with every row whose foreign key is the record's key, in the order of the bytes of the rows' own
keys; all results have the record's key, time and headers, and nothing comes between them. A versioned table is read as it
was at the record's time, the foreign key being that of the row's version then. What the table does later emits nothing. As in
SQL, a null foreign key or a null key matches nothing; a left join emits such a record once.

    order = builder.stream("orders")                            # keyed by order id
    line = builder.table("lines")                               # keyed by line id, with the order's id in the value
    order.left_join(line, joiner, table_foreign_key=lambda line: line.order)

The index holds whole rows, so that a record never waits for an answer (spec-joins 9.4, layout A1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.foreign_key_messages import IndexUpdate, key_partitioner, message_serde, taking_key
from raystreams.operators.grace_buffer import Waiting, add_waiting, checked_grace, history_retention, joined_records
from raystreams.operators.graph import Channel, ChannelSink, ChannelSource
from raystreams.operators.hints import value_of
from raystreams.operators.record import Headers, Process
from raystreams.operators.stream_foreign_key_index import IndexReceive, IndexSend, VersionedIndexSend
from raystreams.stores.builders import Stores, foreign_key_index, versioned_foreign_key_index
from raystreams.stores.serdes import KeySerde, Serde

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream
    from raystreams.operators.kstream_joins import StreamJoin
    from raystreams.operators.ktable import KTable


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexJoin:
    """Joins each stream record with the index."""

    store: str
    versioned: bool
    joiner: Callable[..., Any]
    with_key: bool
    left: bool
    key: KeySerde
    row: Serde[Any]
    wait: Waiting | None

    def start(self, node: NodeRuntime) -> Process:
        forward, failed = node.forward, node.failed
        versioned, scan, encode, decode_row = self.versioned, node.store(self.store).scan, self.key.encode, self.row.decode
        joiner, with_key, left = self.joiner, self.with_key, self.left

        def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                rows: list[Any] = []
                if key is not None:
                    matches = scan(encode(key), timestamp) if versioned else scan(encode(key))
                    rows = [decode_row(row) for _, row in matches]
                if not rows and left:
                    rows = [None]
                results = [joiner(key, value, row) if with_key else joiner(value, row) for row in rows]
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            for result in results:
                forward(key, result, timestamp, headers)

        return joined_records(node, join, self.wait, left=left)


def add_table_foreign_key_join(
    stream: KStream[Any, Any], table: KTable[Any, Any], extractor: Callable[..., Any], join: StreamJoin
) -> KStream[Any, Any]:
    """`KStream.join` and `left_join` with `table_foreign_key=`."""
    from raystreams.operators.kstream import KStream

    draft = stream._draft
    grace = checked_grace(table, join.joined)
    node = draft.named("KSTREAM-FK-LEFTJOIN-" if join.left else "KSTREAM-FK-JOIN-", join.name)
    send, topic = f"{node}-index-registration-processor", f"{node}-index-registration-topic"
    source, receive = f"{node}-index-registration-source", f"{node}-index-receive"
    foreign_key = taking_key(extractor, with_key=join.foreign_key_with_key)
    index = draft.store_of(node, "-index-store", join.name)
    by_key = key_partitioner(join.table_joined, "partitioner", stream._key)

    table._table.enable_old()
    versioned = table._table.versioned
    sender: IndexSend | VersionedIndexSend
    send_stores = []
    if versioned:
        retention = history_retention(table)
        draft.add_store(versioned_foreign_key_index(index, history_retention=retention))
        history = draft.store_of(node, "-index-registration-store", join.name)
        draft.add_store(Stores.versioned(history, history_retention=retention, key=table._key, value=bytes))
        send_stores = [history]
        sender = VersionedIndexSend(
            store=history, foreign_key=foreign_key, key=table._key, value=table._value, foreign=stream._key, counted_as=node
        )
    else:
        draft.add_store(foreign_key_index(index))
        sender = IndexSend(
            foreign_key=foreign_key, key=table._key, value=table._value, foreign=stream._key, counted_as=node
        )
    draft.add(send, lambda: sender, [table._node], stores=send_stores, on_error=join.on_error)
    draft.add(f"{node}-index-registration-sink", lambda: ChannelSink(channel=topic), [send])
    draft.add(source, lambda: ChannelSource(channel=topic))
    draft.add_channel(
        Channel(
            name=topic, source=source, key=stream._key, value=message_serde(IndexUpdate), is_table=True, partitioner=by_key
        )
    )
    draft.add(
        receive,
        lambda: IndexReceive(store=index, versioned=versioned, foreign=stream._key, counted_as=node),
        [source],
        stores=[index],
    )

    wait = add_waiting(draft, node, join.name, grace, stream)
    keyed = stream._keyed(node)
    operator = IndexJoin(
        store=index, versioned=versioned, joiner=join.joiner, with_key=join.with_key, left=join.left, key=stream._key,
        row=table._value, wait=wait,
    )  # fmt: skip
    draft.add(
        node,
        lambda: operator,
        [keyed._node],
        stores=[index] if wait is None else [index, wait.store],
        on_error=join.on_error,
        tolerates_null_keys=join.left,
    )
    return KStream(draft, node, keyed._key, value_of(join.joiner, join.value))
