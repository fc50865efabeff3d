"""Record caches: of each key only the last change is given out, when the task commits (spec-runtime 4.3, spec-stores 7.1).

    put a=1, a=2, b=1, b=null, commit   ->   a=2, whose old value is what a was at the commit before; nothing of b

`Materialized.key_value(caching=True)` asks for it: fewer results in between, the same ones in the end. The store itself is
written at once, so that look-ups see the newest rows; what waits is the change. It leaves before a commit, before time passes
without a record and at the end of input, in the order of the keys' last changes, with the newest time and headers. What was
not there before and is not there now says nothing.

Of versioned tables every change counts, and results on close come once as it is: neither is held back. Results then depend on
when the job commits; what windows make of them further down may too, as in Kafka Streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.options import Materialized
from raystreams.operators.record import Change, Headers, Process
from raystreams.stores.serdes import KeySerde


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A cache in front of what follows a table operator, which must give real old values, None where there was no row."""

    key: KeySerde[Any]
    is_below: bool = False
    """Whether a node below holds back, for several operators over one store."""

    def start(self, node: NodeRuntime, *, sends_old: bool) -> Process:
        """What the operator calls in place of `node.forward`."""
        forward, encode = node.forward, self.key.encode
        if self.is_below:
            return forward
        held: dict[bytes, tuple[Any, Any, Any, int, Headers]] = {}

        def hold(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            place = encode(key)
            known = held.pop(place, None)
            held[place] = key, change.new, change.old if known is None else known[2], timestamp, headers

        def give_out() -> bool:
            due = list(held.values())
            held.clear()
            for key, new, old, timestamp, headers in due:
                if new is not None or old is not None:
                    forward(key, Change(new, old if sends_old else None), timestamp, headers)
            return bool(due)

        node.before_commit(give_out)
        node.when_ended(give_out)
        return hold


def cache_of(materialized: Materialized[Any, Any] | None, key: KeySerde[Any], *, is_below: bool = False) -> Cache | None:
    """The cache that a materialization asks for."""
    return Cache(key=key, is_below=is_below) if materialized is not None and materialized.caching else None


def forwarding(node: NodeRuntime, cache: Cache | None, *, sends_old: bool) -> Process:
    """What a table operator calls with its changes."""
    return node.forward if cache is None else cache.start(node, sends_old=sends_old)
