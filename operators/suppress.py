"""`suppress`: hold a table's updates back, until a time limit or until their window closes (KIP-328, spec-runtime 4.1).

At most one entry a key, in the order of its buffer time (the first update's time, or the window's end), then of the key's
bytes. A later update replaces the entry and leaves its place. Entries leave when the largest time that came here has reached
their buffer time + wait; there is no timer. Over a limit, the oldest leave early, or BufferFullError is raised.

What leaves carries the newest update, and as its old value what was there BEFORE the first one that was held back. Kafka
Streams sends the old value of the newest update; an aggregation below would then subtract what it never added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from raystreams.operators.draft import GraphDraft
from raystreams.operators.errors import BufferFullError, TopologyError
from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.graph import ChannelSink, ChannelSource
from raystreams.operators.ktable import KTable
from raystreams.operators.options import Suppressed
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_draft import TableDraft
from raystreams.stores.builders import suppress_buffer
from raystreams.stores.serdes import KeySerde, Serde
from raystreams.stores.time_ordered import SuppressBuffer
from raystreams.stores.values import NO_HEADERS, ValueAndTimestamp

_entry_bytes = msgspec.msgpack.Encoder()


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """What is held back of a key: the newest update, and the value before the first one."""

    new: bytes | None
    prior: bytes | None
    timestamp: int
    headers: dict[str, bytes] | None


_entry_of = msgspec.msgpack.Decoder(_Entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppress:
    """Holds changes back; `wait` is the time limit, or the grace of the windows."""

    store: str
    parent: str
    key: KeySerde[Any]
    value: Serde[Any]
    suppressed: Suppressed
    wait: int
    length: int
    """How much older than its window's end a final result may be."""
    final: bool
    """Until the window closes: buffer times are window ends, deletions are swallowed."""

    def start(self, node: NodeRuntime) -> Process:
        forward = node.forward
        buffer: SuppressBuffer = node.store(self.store)
        time_cell = node.cell("stream time", -1)
        encode_key, encode, decode_key, decode = self.key.encode, self.value.encode, self.key.decode, self.value.decode
        wait, final, limits = self.wait, self.final, self.suppressed

        def give_out(entry: tuple[int, bytes, bytes]) -> None:
            held = _entry_of.decode(entry[2])
            if held.new is None and final:
                return
            new = None if held.new is None else decode(held.new)
            prior = None if held.prior is None else decode(held.prior)
            forward(decode_key(entry[1]), Change(new, prior), held.timestamp, held.headers or NO_HEADERS)

        def give_out_due() -> None:
            oldest = buffer.min_time
            if oldest is not None and oldest <= time_cell.value - wait:
                for entry in buffer.evict(time_cell.value - wait):
                    give_out(entry)

        def is_full() -> bool:
            too_many = limits.max_records is not None and buffer.count > limits.max_records
            return too_many or (limits.max_bytes is not None and buffer.size_bytes > limits.max_bytes)

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if timestamp > time_cell.value:
                time_cell.value = timestamp
            key_bytes = encode_key(key)
            held = buffer.get(key_bytes)
            old = None if change.old is None else encode(change.old)
            prior = old if held is None else _entry_of.decode(held[1]).prior
            new = None if change.new is None else encode(change.new)
            entry = _Entry(new, prior, timestamp, dict(headers) if headers else None)
            buffer.put(key_bytes, key.end if final else timestamp, _entry_bytes.encode(entry))
            give_out_due()
            while is_full():
                if limits.when_full == "fail":
                    raise BufferFullError(
                        node.name, buffer.count, limits.max_records, buffer.size_bytes, limits.max_bytes
                    )
                oldest = buffer.pop_oldest()
                assert oldest is not None
                give_out(oldest)

        def passed(time: int) -> None:
            time_cell.value = max(time_cell.value, time)
            give_out_due()

        def ended() -> None:
            while (entry := buffer.pop_oldest()) is not None:
                give_out(entry)

        node.lag = wait + self.length
        node.when_time_passes(passed)
        node.when_ended(ended)
        return process

    def view(self, node: NodeRuntime) -> TableView:
        """What is below sees the value before the first update that is held back; else the row above."""
        return _SuppressView(node.store(self.store), node.view(self.parent), self.key, self.value)


class _SuppressView:
    versioned = False

    def __init__(self, buffer: SuppressBuffer, parent: TableView, key: KeySerde[Any], value: Serde[Any]) -> None:
        self._buffer, self._parent, self._key, self._value = buffer, parent, key, value

    def get(self, key: Any) -> ValueAndTimestamp[Any] | None:
        """The row that has been given out."""
        held = self._buffer.get(self._key.encode(key))
        if held is None:
            return self._parent.get(key)
        prior = _entry_of.decode(held[1]).prior
        return None if prior is None else ValueAndTimestamp(self._value.decode(prior), -1)

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        """A suppressed table keeps no versions."""
        raise TypeError("a suppressed table keeps no versions")


def add_suppress(table: KTable[Any, Any], suppressed: Suppressed, name: str | None) -> KTable[Any, Any]:
    """Add the node and its buffer; raises TopologyError below versioned tables, and for final results without windows."""
    draft, parent = table._draft, table._table
    _refuse_versioned(parent, "suppress can't follow a versioned table")
    draft.checks.append(
        lambda: _refuse_versioned(parent, f"suppress can't follow {table._node!r}, which is versioned as a table above it is")
    )
    node = draft.named("KTABLE-SUPPRESS-", name)
    store = f"{name}-store" if name is not None else draft.store_named("KTABLE-SUPPRESS-STATE-STORE-", None)
    draft.add_store(suppress_buffer(store))
    wait, length = (suppressed.wait, 0) if suppressed.wait is not None else _grace_above(draft, table._node, [])
    parent.enable_old()
    own = draft.add_table(TableDraft(node, "derived", parents=(parent,), versioned=False, extra_stores=(store,)))
    operator = Suppress(
        store=store, parent=table._node, key=table._key, value=table._value, suppressed=suppressed, wait=wait,
        length=length, final=suppressed.wait is None,
    )  # fmt: skip
    draft.add(node, lambda: operator, [table._node], stores=[own, store])
    return KTable(draft, node, table._key, table._value, own)


def _refuse_versioned(table: TableDraft, text: str) -> None:
    if table.versioned:
        raise TopologyError(
            f"{text}: what is held back would be missing from its history. Put to_stream().to_table() between, or "
            "materialize without versions"
        )


def _grace_above(draft: GraphDraft, name: str, seen: list[str]) -> tuple[int, int]:
    """The largest grace of the windowed aggregations above a node, on every path (spec-joins 2.3), and length of windows."""
    if name in draft.window_graces:
        return draft.window_graces[name]
    parents = list(_parents(draft, name))
    if not parents or name in seen:
        path = " below ".join(map(repr, [*seen, name]))
        raise TopologyError(
            f"until_window_closes needs a windowed aggregation above it, and there is none above {path}. Use windowed_by(...), "
            "or until_time_limit(...)"
        )
    graces, lengths = zip(*(_grace_above(draft, parent, [*seen, name]) for parent in parents), strict=True)
    return max(graces), max(lengths)


def _parents(draft: GraphDraft, name: str) -> Iterator[str]:
    """The nodes above, also those that send to it over a channel."""
    node = draft.nodes[name]
    yield from node.parents
    operator = node.make() if not node.parents else None
    if isinstance(operator, ChannelSource):
        for other in draft.nodes.values():
            sink = other.make() if other.parents and other.name.endswith("-sink") else None
            if isinstance(sink, ChannelSink) and sink.channel == operator.channel:
                yield from other.parents


