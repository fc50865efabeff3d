"""Sorting a table's records by time before anything sees them: KIP-914's long-term vision of grace at table sources.

A record waits until stream time, the largest timestamp that has come here, is `grace` past its own; what is due then leaves in
the order of (time, key bytes, arrival). One that is older than stream time less grace could only come out of order: it is
dropped, and counted as late. With grace 0 nothing waits, and whatever is older than the newest record is dropped.

At the end of bounded input all records come out; a watermark lets out what a record of that time would.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from raystreams.operators.draft import GraphDraft
from raystreams.operators.execution import NodeRuntime
from raystreams.operators.record import Headers, Process
from raystreams.operators.stored_record import packing
from raystreams.stores.builders import time_ordered_buffer
from raystreams.stores.serdes import KeySerde, Serde
from raystreams.stores.values import MAX_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder:
    """Holds records back until nothing older than they are can be on time."""

    store: str
    grace: int
    key: KeySerde
    value: Serde[Any]

    def start(self, node: NodeRuntime) -> Process:
        forward, drop, grace = node.forward, node.drop, self.grace
        buffer, newest = node.store(self.store), node.cell("stream time", -1)
        put, evict = buffer.put, buffer.evict
        encode, decode = self.key.encode, self.key.decode
        pack, unpack = packing(self.value)

        def release(up_to: int) -> None:
            for timestamp, key, payload in evict(up_to):
                value, headers = unpack(payload)
                forward(decode(key), value, timestamp, headers)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                return forward(key, value, timestamp, headers)  # the table drops and counts it
            now: int = newest.value
            if timestamp < now - grace:
                return drop("late")
            put(timestamp, encode(key), pack(value, headers))
            if timestamp > now:
                newest.value = now = timestamp
            release(now - grace)

        def time_passes(now: int) -> None:
            if now > newest.value:
                newest.value = now
                release(now - grace)

        node.when_time_passes(time_passes)
        node.when_ended(lambda: release(MAX_TIME - 1))
        return process


_GENERATED = re.compile(r"-\d{10}-reorder\Z")


def add_reorder(draft: GraphDraft, parent: str, node: str, grace: int, key: KeySerde, value: Serde[Any]) -> str:
    """Add the node that sorts `parent`'s records; returns its name."""
    if grace < 0:
        raise ValueError(f"grace must not be negative, got {grace} ms")
    store = draft.store_of(node, "-buffer", None if _GENERATED.search(node) else node)
    draft.add_store(time_ordered_buffer(store))
    operator = Reorder(store=store, grace=grace, key=key, value=value)
    return draft.add(node, lambda: operator, [parent], stores=[store])
