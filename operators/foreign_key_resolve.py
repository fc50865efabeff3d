"""Stage 5 of the foreign-key join, at home again: an answer that is still current is joined (spec-joins 4.7).

An answer carries the hash of the left value that asked. If the left row has changed since, the answer is stale: it is dropped
and counted, and the newer subscription's answer follows. This makes results right when a row moves from one foreign key to
another and back, whatever order the answers of two partitions come in.

    right value    left join         inner join
    a row          J(left, right)    J(left, right)
    none           J(left, None)     a deletion; if the answer is quiet, only where a result was given
    (left gone)    a deletion        a deletion

An inner join has one thing more to look after. A row's deletion on the right, or the end of a subscription, is told once, with
the hash of that moment. If the left row has changed meanwhile, that answer is stale, and the change's own may have nothing to
say: in Kafka the old result then stays for ever. So here every subscription is answered, if only quietly, and `given` knows for
which left keys a result is out: a quiet answer deletes it, and so does the stale end of a subscription if the left row refers
to nothing now.
What arrives one after the other, as in a test driver, gives exactly Kafka's results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.foreign_key_messages import Response, check_version, fingerprint
from raystreams.operators.record import Headers, Process
from raystreams.stores.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolve:
    """Joins answers with the left rows as they are now. The result keeps the answer's time. `given` is an inner join's."""

    table: str
    given: str | None
    foreign_key: Callable[[Any, Any], Any]
    joiner: Callable[..., Any]
    with_key: bool
    value: Serde[Any]
    other_value: Serde[Any]
    counted_as: str | None

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop, get = node.forward, node.failed, node.dropping_as(self.counted_as), node.view(self.table).get
        hash_of, decode_other = fingerprint(self.value), self.other_value.decode
        joiner, with_key = self.joiner, self.with_key

        def join(key: Any, value: Any, response: Response, timestamp: int, headers: Headers) -> None:
            try:
                other = None if response.value is None else decode_other(response.value)
                result = joiner(key, value, other) if with_key else joiner(value, other)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            forward(key, result, timestamp, headers)

        def process_left(key: Any, response: Response, timestamp: int, headers: Headers) -> None:
            check_version(response)
            row = get(key)
            if response.hash != (None if row is None else hash_of(row.value)):
                drop("stale response")
            elif row is None:
                forward(key, None, timestamp, headers)
            else:
                join(key, row.value, response, timestamp, headers)

        if self.given is None:
            return process_left
        given, foreign_key = node.store(self.given), self.foreign_key
        result_of, put, delete = given.get, given.put, given.delete

        def process_inner(key: Any, response: Response, timestamp: int, headers: Headers) -> None:
            check_version(response)
            row = get(key)
            stale = response.hash != (None if row is None else hash_of(row.value))
            if response.value is not None and row is not None and not stale:
                if result_of(key) is None:
                    put(key, True)
                return join(key, row.value, response, timestamp, headers)
            if stale:
                try:
                    gone = response.ended and (row is None or foreign_key(key, row.value) is None)
                except Exception as error:
                    return failed(error, key, response, timestamp, headers)
                if not gone or result_of(key) is None:
                    return drop("stale response")
            elif response.quiet and result_of(key) is None:
                return
            delete(key)
            forward(key, None, timestamp, headers)

        return process_inner
