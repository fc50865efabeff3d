"""`KStream.deduplicate`: a record passes once; repeats of its id under its key, within a time, are dropped and counted.

    repeat    another record of the same key and id, passed on or dropped, was seen less than `within` away in event time,
              before it or (for records out of order) after it

So a producer that retries every minute for an hour gives one record, also with `within` five minutes. A record without an id
(None) is like no other. Kept: the times at which each id was seen, 2 * `within` back from the newest; a record that is late by
more than `within` is compared with what of that is left, and passed on if it is not known.

If the key was changed before, records are routed by it first. Those without a key stay where they are and are compared there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.hints import check_function
from raystreams.operators.record import Headers, Process
from raystreams.stores.builders import Stores
from raystreams.stores.serdes import KeySerde, key_serde
from raystreams.stores.values import Duration, duration_milliseconds

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream


_NULL = b""
"""In place of a null key; no encoded key is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """Drops repeats. The store holds (key, id) by time."""

    id: Callable[[Any, Any], Any]
    within: int
    store: str
    key: KeySerde

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop, id_of, within = node.forward, node.failed, node.drop, self.id, self.within
        seen, encode = node.store(self.store), self.key.encode
        fetch, put = seen.fetch, seen.put

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                id = id_of(key, value)
                if id is not None:
                    event = (_NULL if key is None else encode(key), id)
                    with fetch(event, timestamp - within + 1, timestamp + within - 1) as times:
                        repeated = next(times, None) is not None
                    put(event, True, timestamp)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            if id is not None and repeated:
                return drop("duplicate")
            forward(key, value, timestamp, headers)

        return process


def deduplicate(
    stream: KStream[Any, Any], id: Callable[[Any, Any], Any], within: Duration, name: str | None
) -> KStream[Any, Any]:
    """`KStream.deduplicate`."""
    from raystreams.operators.kstream import KStream

    check_function(id, "id")
    time = duration_milliseconds(within, what="within")
    if time <= 0:
        raise ValueError(f"within must be positive, got {time} ms")
    draft = stream._draft
    node = draft.named("KSTREAM-DEDUPLICATE-", name)
    store = draft.store_of(node, "-seen", name)
    draft.add_store(Stores.window(store, retention=2 * time, size=1, key=_event_serde(stream._key), value=bool))
    keyed = stream._keyed(node)
    operator = Deduplicate(id=id, within=time, store=store, key=stream._key)
    draft.add(node, lambda: operator, [keyed._node], stores=[store], tolerates_null_keys=True)
    return KStream(draft, node, stream._key, stream._value)


def _event_serde(key: KeySerde) -> KeySerde:
    """Keys (bytes of the record's key, id), which live where the record's key does."""
    plain = key_serde(None)

    def partition_bytes(event: tuple[bytes, Any]) -> bytes:
        return key.partition_bytes(key.decode(event[0])) if event[0] != _NULL else _NULL

    return KeySerde(plain.encode, plain.decode, plain.prefix, partition_bytes, plain.description)
