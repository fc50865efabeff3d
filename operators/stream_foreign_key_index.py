"""The index of KIP-955's join: a table's rows, sent to the partitions of their foreign keys and kept there.

    table change --> IndexSend or VersionedIndexSend ---- IndexUpdate, keyed by foreign key ----> IndexReceive --- index:
                                                                                  (foreign key, primary key) -> row

Without versions a change of the row's foreign key is a removal, then a row. With versions each write says from when on, so it
doesn't matter in which order writes arrive (spec-joins 9.3). For a row that gets foreign key `f` at time `t`:

    1. f, from t: the row
    2. the foreign key of the version before t, and of the one that had exactly t, if another: removed from t
    3. if a later version has another foreign key: f, from that version's time: removed

What was written at exactly `t` is gone from the table when its change arrives here, so the sender keeps the history of each
row's foreign key itself. Rows whose foreign key is null are in no index (SQL: NULL matches nothing); they are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.foreign_key_messages import IndexUpdate, check_version
from raystreams.operators.record import Change, Headers, Process
from raystreams.stores.serdes import KeySerde, Serde
from raystreams.stores.values import PUT_REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSend:
    """Sends an unversioned table's rows, in the order of its changes."""

    foreign_key: Callable[[Any, Any], Any]
    key: KeySerde
    value: Serde[Any]
    foreign: KeySerde
    counted_as: str

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop = node.forward, node.failed, node.dropping_as(self.counted_as)
        foreign_key, encode_foreign = self.foreign_key, self.foreign.encode
        encode_key, encode_value = self.key.encode, self.value.encode

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new, old = change.new, change.old
            try:
                before = None if old is None else foreign_key(key, old)
                after = None if new is None else foreign_key(key, new)
                moved = before is not None and (after is None or encode_foreign(before) != encode_foreign(after))
                key_bytes = encode_key(key)
                row = None if after is None else encode_value(new)
            except Exception as error:
                return failed(error, key, new, timestamp, headers)
            if moved:
                forward(before, IndexUpdate(key_bytes, None), timestamp, headers)
            if after is not None:
                forward(after, IndexUpdate(key_bytes, row), timestamp, headers)
            elif new is not None:
                drop("null foreign key")

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedIndexSend:
    """Sends a versioned table's versions. `store` holds the history of each row's foreign key, as bytes."""

    store: str
    foreign_key: Callable[[Any, Any], Any]
    key: KeySerde
    value: Serde[Any]
    foreign: KeySerde
    counted_as: str

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop = node.forward, node.failed, node.dropping_as(self.counted_as)
        history = node.store(self.store)
        put, neighbours = history.put, history.neighbours
        foreign_key, encode_foreign, decode_foreign = self.foreign_key, self.foreign.encode, self.foreign.decode
        encode_key, encode_value = self.key.encode, self.value.encode

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new = change.new
            try:
                after = None if new is None else foreign_key(key, new)
                after_bytes = None if after is None else encode_foreign(after)
                key_bytes = encode_key(key)
                row = None if after is None else encode_value(new)
            except Exception as error:
                return failed(error, key, new, timestamp, headers)
            before, same, later = neighbours(key, timestamp)
            if put(key, after_bytes, timestamp) == PUT_REFUSED:
                return drop("expired")
            if after_bytes is not None:
                forward(after, IndexUpdate(key_bytes, row), timestamp, headers)
            elif new is not None:
                drop("null foreign key")
            gone = {version.value: None for version in (before, same) if version is not None}
            for other in gone:
                if other is not None and other != after_bytes:
                    forward(decode_foreign(other), IndexUpdate(key_bytes, None), timestamp, headers)
            if later is not None and after_bytes is not None and later.value != after_bytes:
                forward(after, IndexUpdate(key_bytes, None), later.timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReceive:
    """Keeps the index in the stream's partitions. A version older than the index's history is refused, and counted."""

    store: str
    versioned: bool
    foreign: KeySerde
    counted_as: str

    def start(self, node: NodeRuntime) -> Process:
        index, encode, drop = node.store(self.store), self.foreign.encode, node.dropping_as(self.counted_as)
        put = index.put

        def process_version(key: Any, update: IndexUpdate, timestamp: int, headers: Headers) -> None:
            check_version(update)
            if put(encode(key), update.primary_key, update.row, timestamp) == PUT_REFUSED:
                drop("expired")

        if self.versioned:
            return process_version
        delete = index.delete

        def process(key: Any, update: IndexUpdate, timestamp: int, headers: Headers) -> None:
            check_version(update)
            if update.row is None:
                delete(encode(key), update.primary_key)
            else:
                put(encode(key), update.primary_key, update.row)

        return process
