"""Stream records that wait for late rows of a versioned table (KIP-923, spec-joins 5.1).

    a record older than the buffer's time less grace    is joined at once: late records are joined, not dropped
    any other                                           goes in; then all come out whose time is at most buffer time - grace,
                                                        by (time, key bytes, arrival), each with its own time and headers

The buffer's time is the largest timestamp that was put in. Only accepted records move it; not the table's, nor dropped ones.
At the end of bounded input all come out; a watermark lets out what a record of that time would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.options import Joined
from raystreams.operators.record import Headers, Process
from raystreams.operators.stored_record import packing
from raystreams.stores.builders import StoreBuilder, time_ordered_buffer
from raystreams.stores.serdes import KeySerde, Serde
from raystreams.stores.values import MAX_TIME

if TYPE_CHECKING:
    from raystreams.operators.ktable import KTable

_NULL = b""
"""In place of a null key; no encoded key is empty."""


def waiting(node: NodeRuntime, store: str, grace: int, key: KeySerde, value: Serde[Any], join: Process) -> Process:
    """A function that takes accepted stream records and calls `join` with each when its time has come."""
    buffer = node.store(store)
    put, evict, time = buffer.put, buffer.evict, node.cell("buffer time", -1)
    encode_key, decode_key = key.encode, key.decode
    pack, unpack = packing(value)

    def release(up_to: int) -> None:
        for timestamp, key_bytes, payload in evict(up_to):
            found, headers = unpack(payload)
            join(None if key_bytes == _NULL else decode_key(key_bytes), found, timestamp, headers)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        now = time.value
        if now - grace > timestamp:
            return join(key, value, timestamp, headers)
        put(timestamp, _NULL if key is None else encode_key(key), pack(value, headers))
        if timestamp > now:
            time.value = now = timestamp
        release(now - grace)

    def time_passes(now: int) -> None:
        if now > time.value:
            time.value = now
            release(now - grace)

    node.when_time_passes(time_passes)
    node.when_ended(lambda: release(MAX_TIME - 1))
    return process


def checked_grace(table: KTable[Any, Any], joined: Joined | None) -> int | None:
    """The grace in milliseconds, None if there is none; ValueError if the table can't tell rows as of a time that far back."""
    grace = joined.grace_milliseconds if joined is not None else None
    if grace is None:
        return None
    if not table._table.versioned:
        raise ValueError(
            "a grace period needs a versioned table, to look rows up as of the waiting record's time: materialize the table with "
            "Materialized.versioned(...), or leave grace out"
        )
    retention = history_retention(table)
    if grace > retention:
        raise ValueError(
            f"the grace period ({grace} ms) is longer than the table's history_retention ({retention} ms): a record would wait "
            "longer than the rows of its time are kept"
        )
    return grace


def history_retention(table: KTable[Any, Any]) -> int:
    """The shortest history of the versioned stores behind a table, in milliseconds."""
    builders = table._table.behind(table._draft.stores)
    return min(int(builder.settings["history_retention"]) for builder in builders if builder.kind == "versioned")


def grace_buffer(name: str) -> StoreBuilder[Any]:
    """The store of waiting records."""
    return time_ordered_buffer(name)
