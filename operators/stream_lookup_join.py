"""The join of a stream with the table rows that its values point at, n:1 (`stream_foreign_key`), inner and left.

    stream's partition                                          table's partition
    ------------------                                          -----------------
    stream record
       | request: foreign key, number n; the record is kept under n
       +------------ LookupRequest, keyed by foreign key -----> lookup (as of the record's time, if versioned)
                                                                   |
    release <------------ LookupResponse to home, with n ----------+
       |    (in the order of n)
    result: the record's own key, time and headers

What a record is joined with is decided where the row lives, when the request comes there; what the table does later emits
nothing. Answers come from several partitions in any order; results leave in the order in which the records came, so that the
order of each key is kept. Open requests are kept records: they survive a crash, and no record is joined twice.

A null foreign key matches nothing: an inner join counts it, a left join answers it at home, in its turn. The key may be null:
it takes no part. With a grace period the record waits at home (spec-joins 5.1) and is asked for when it is let out; one with a
null foreign key doesn't wait. Why not `select_key` and a plain join: that would lose the record's key, and its partition.
Source: spec-joins 9.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from raystreams.operators.execution import NodeRuntime
from raystreams.operators.foreign_key_messages import (
    LookupRequest,
    LookupResponse,
    check_version,
    key_partitioner,
    message_serde,
    taking_key,
)
from raystreams.operators.grace_buffer import Waiting, add_waiting, checked_grace
from raystreams.operators.graph import Channel, ChannelSink, ChannelSource
from raystreams.operators.hints import value_of
from raystreams.operators.record import Headers, Process
from raystreams.operators.stored_record import packing
from raystreams.stores.builders import Stores
from raystreams.stores.serdes import KeySerde, Serde, key_serde
from raystreams.stores.values import NO_HEADERS

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream
    from raystreams.operators.kstream_joins import StreamJoin
    from raystreams.operators.ktable import KTable


class OpenRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A record that waits for its answer, or, when it has one, for its turn. `order` is its place among the task's records."""

    key: bytes | None
    record: bytes
    timestamp: int
    order: int
    answered: bool = False
    row: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Numbers stream records, keeps them, and asks for their rows."""

    foreign_key: Callable[[Any, Any], Any]
    left: bool
    store: str
    sink: str
    release: str
    key: KeySerde
    value: Serde[Any]
    foreign: KeySerde
    wait: Waiting | None

    def start(self, node: NodeRuntime) -> Process:
        failed, drop = node.failed, node.dropping_as(self.release)
        send, release, own = node.children[self.sink], node.children[self.release], node.partition
        keep, given, order = node.store(self.store).put, node.cell("given", 0), node.order
        encode_key, encode_foreign, left, foreign_key = self.key.encode, self.foreign.encode, self.left, self.foreign_key
        pack, _ = packing(self.value)

        def number(key: Any, value: Any, timestamp: int, headers: Headers) -> int:
            sequence: int = given.value
            given.value = sequence + 1
            key_bytes = None if key is None else encode_key(key)
            keep(sequence, OpenRequest(key_bytes, pack(value, headers), timestamp, order()))
            return sequence

        def ask(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            sequence = number(key, value, timestamp, headers)
            send(foreign_key(key, value), LookupRequest(own, sequence), timestamp, NO_HEADERS)

        wait = ask if self.wait is None else self.wait.start(node, ask)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None:
                return drop("null value")
            try:
                foreign = foreign_key(key, value)
                if foreign is not None:
                    encode_foreign(foreign)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            if foreign is not None:
                wait(key, value, timestamp, headers)
            elif left:
                sequence = number(key, value, timestamp, headers)
                release(None, LookupResponse(sequence, None), timestamp, NO_HEADERS)
            else:
                drop("null foreign key")

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Looks rows up at the table's partition; requests without a match are answered too, as others wait behind them."""

    table: str
    other_value: Serde[Any]

    def start(self, node: NodeRuntime) -> Process:
        forward, view, encode = node.forward, node.view(self.table), self.other_value.encode
        versioned, get, get_as_of = view.versioned, view.get, view.get_as_of

        def process(key: Any, request: LookupRequest, timestamp: int, headers: Headers) -> None:
            check_version(request)
            found = get_as_of(key, timestamp) if versioned else get(key)
            row = None if found is None else encode(found.value)
            forward(None, (request.home, LookupResponse(request.sequence, row)), timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeSink(ChannelSink):
    """Sends answers to the partitions that asked."""

    def start(self, node: NodeRuntime) -> Process:
        send_to = node.channel(self.channel).send_to

        def process(key: Any, answer: tuple[int, LookupResponse], timestamp: int, headers: Headers) -> None:
            send_to(answer[0], key, answer[1], timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Joins records with their answers, in the order in which the records came."""

    joiner: Callable[..., Any]
    with_key: bool
    left: bool
    store: str
    key: KeySerde
    value: Serde[Any]
    other_value: Serde[Any]

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop = node.forward, node.failed, node.drop
        requests, turn = node.store(self.store), node.cell("released", 0)
        get, put, delete = requests.get, requests.put, requests.delete
        decode_key, decode_row, joiner, with_key, left = (
            self.key.decode, self.other_value.decode, self.joiner, self.with_key, self.left
        )  # fmt: skip
        _, unpack = packing(self.value)
        released: OpenRequest | None = None

        def join(request: OpenRequest, row: bytes | None) -> None:
            if row is None and not left:
                return
            key = None if request.key is None else decode_key(request.key)
            value, headers = unpack(request.record)
            try:
                other = None if row is None else decode_row(row)
                result = joiner(key, value, other) if with_key else joiner(value, other)
            except Exception as error:
                return failed(error, key, value, request.timestamp, headers)
            forward(key, result, request.timestamp, headers)

        def process(key: Any, response: LookupResponse, timestamp: int, headers: Headers) -> None:
            nonlocal released
            check_version(response)
            sequence, row = response.sequence, response.row
            request = get(sequence)
            if request is None or request.answered:
                return drop("stale response")
            if sequence != turn.value:
                put(sequence, msgspec.structs.replace(request, answered=True, row=row))
                return
            while True:
                delete(sequence)
                turn.value = sequence = sequence + 1
                released = request
                join(request, row)
                request = get(sequence)
                if request is None or not request.answered:
                    break
                row = request.row
            released = None

        def order() -> int | None:
            request: OpenRequest | None = released or get(turn.value)
            return None if request is None else request.order

        node.holds(order)
        return process


def add_stream_foreign_key_join(
    stream: KStream[Any, Any], table: KTable[Any, Any], extractor: Callable[..., Any], join: StreamJoin
) -> KStream[Any, Any]:
    """`KStream.join` and `left_join` with `stream_foreign_key=`."""
    from raystreams.operators.kstream import KStream

    draft = stream._draft
    grace = checked_grace(table, join.joined)
    node = draft.named("KSTREAM-LOOKUP-LEFTJOIN-" if join.left else "KSTREAM-LOOKUP-JOIN-", join.name)
    requests, responses = f"{node}-request-topic", f"{node}-response-topic"
    request, request_sink, request_source = f"{node}-request", f"{node}-request-sink", f"{node}-request-source"
    lookup, response_sink, response_source = f"{node}-lookup", f"{node}-response-sink", f"{node}-response-source"
    by_other = key_partitioner(join.table_joined, "other_partitioner", table._key)
    table._table.materialize()

    store = draft.add_store(
        Stores.key_value(draft.store_of(node, "-requests", join.name), key=int, value=OpenRequest)
    )
    wait = add_waiting(draft, node, join.name, grace, stream)
    asks = Request(
        foreign_key=taking_key(extractor, with_key=join.foreign_key_with_key), left=join.left, store=store, sink=request_sink,
        release=node, key=stream._key, value=stream._value, foreign=table._key, wait=wait,
    )  # fmt: skip
    gives = Release(
        joiner=join.joiner, with_key=join.with_key, left=join.left, store=store, key=stream._key, value=stream._value,
        other_value=table._value,
    )  # fmt: skip
    draft.add(
        request,
        lambda: asks,
        [stream._node],
        stores=[store] if wait is None else [store, wait.store],
        on_error=join.on_error,
        tolerates_null_keys=True,
    )
    draft.add(request_sink, lambda: ChannelSink(channel=requests), [request])
    draft.add(request_source, lambda: ChannelSource(channel=requests))
    draft.add_channel(
        Channel(
            name=requests, source=request_source, key=table._key, value=message_serde(LookupRequest), partitioner=by_other
        )
    )
    draft.add(
        lookup,
        lambda: Lookup(table=table._table.node, other_value=table._value),
        [request_source],
        stores=[table._table],
    )
    draft.add(response_sink, lambda: HomeSink(channel=responses), [lookup])
    draft.add(response_source, lambda: ChannelSource(channel=responses))
    draft.add_channel(
        Channel(
            name=responses, source=response_source, key=key_serde(None), value=message_serde(LookupResponse), feedback=True
        )
    )
    draft.add(node, lambda: gives, [response_source, request], stores=[store], on_error=join.on_error)
    return KStream(draft, node, stream._key, value_of(join.joiner, join.value), key_changed=stream._key_changed)
