"""Stream records that wait for late rows of a versioned table (KIP-923, spec-joins 5.1).

    a record older than the buffer's time less grace    is joined at once: late records are joined, not dropped
    any other                                           goes in; then all come out whose time is at most buffer time - grace,
                                                        by (time, key bytes, arrival), each with its own time and headers

The buffer's time is the largest timestamp that was put in. Only accepted records move it; not the table's, nor dropped ones.
At the end of bounded input all come out; a watermark lets out what a record of that time would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.options import Joined
from raystreams.operators.record import Headers, Process
from raystreams.operators.stored_record import packing
from raystreams.stores.builders import time_ordered_buffer
from raystreams.stores.serdes import KeySerde, Serde
from raystreams.stores.values import MAX_TIME

if TYPE_CHECKING:
    from raystreams.operators.draft import GraphDraft
    from raystreams.operators.kstream import KStream
    from raystreams.operators.ktable import KTable

_NULL = b""
"""In place of a null key; no encoded key is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Where records wait, for how long, and what they are."""

    store: str
    grace: int
    key: KeySerde
    value: Serde[Any]

    def start(self, node: NodeRuntime, release: Process, late: Process | None = None) -> Process:
        """A function that takes records, and calls `release` with each when its time has come, `late` with what is late."""
        grace, late = self.grace, late or release
        buffer, time = node.store(self.store), node.cell("buffer time", -1)
        put, evict, encode_key, decode_key = buffer.put, buffer.evict, self.key.encode, self.key.decode
        pack, unpack = packing(self.value)

        def release_up_to(last: int) -> None:
            for timestamp, key_bytes, payload in evict(last):
                value, headers = unpack(payload)
                release(None if key_bytes == _NULL else decode_key(key_bytes), value, timestamp, headers)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            now = time.value
            if timestamp < now - grace:
                return late(key, value, timestamp, headers)
            put(timestamp, _NULL if key is None else encode_key(key), pack(value, headers))
            if timestamp > now:
                time.value = now = timestamp
            release_up_to(now - grace)

        def time_passes(now: int) -> None:
            if now > time.value:
                time.value = now
                release_up_to(now - grace)

        node.lag = grace
        node.when_time_passes(time_passes)
        node.when_ended(lambda: release_up_to(MAX_TIME - 1))
        return process


def joined_records(node: NodeRuntime, join: Process, wait: Waiting | None, *, left: bool) -> Process:
    """The rules for records of a stream that is joined with a table by key: a null value is dropped, a null key is too or,
    in a left join, is joined at once with nothing; all others wait if there is something to wait for."""
    drop, joined = node.drop, join if wait is None else wait.start(node, join)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if value is None:
            drop("null value")
        elif key is not None:
            joined(key, value, timestamp, headers)
        elif left:
            join(key, value, timestamp, headers)
        else:
            drop("null key")

    return process


def add_waiting(
    draft: GraphDraft, node: str, name: str | None, grace: int | None, stream: KStream[Any, Any]
) -> Waiting | None:
    """Add the store where records of `stream` wait before `node`, which the user gave `name`; None if there is no grace."""
    if grace is None:
        return None
    store = draft.add_store(time_ordered_buffer(draft.store_of(node, "-Buffer", name)))
    return Waiting(store=store, grace=grace, key=stream._key, value=stream._value)


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
