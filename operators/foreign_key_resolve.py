"""Stage 5 of the foreign-key join, at home again: an answer that is still current is joined (spec-joins 4.7).

An answer carries the hash of the left value that asked. If the left row has changed since, the answer is stale: it is dropped
and counted, and the newer subscription's answer follows. This makes results right when a row moves from one foreign key to
another and back, whatever order the answers of two partitions come in.
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
    """Joins answers with the left rows as they are now. The result keeps the answer's time."""

    table: str
    joiner: Callable[..., Any]
    with_key: bool
    left: bool
    value: Serde[Any]
    other_value: Serde[Any]
    counted_as: str | None

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop, get = node.forward, node.failed, node.dropping_as(self.counted_as), node.view(self.table).get
        hash_of, decode_other = fingerprint(self.value), self.other_value.decode
        joiner, with_key, left = self.joiner, self.with_key, self.left

        def process(key: Any, response: Response, timestamp: int, headers: Headers) -> None:
            check_version(response)
            row = get(key)
            current = None if row is None else hash_of(row.value)
            if response.hash != current:
                return drop("stale response")
            if row is None or (response.value is None and not left):
                return forward(key, None, timestamp, headers)
            try:
                other = None if response.value is None else decode_other(response.value)
                result = joiner(key, row.value, other) if with_key else joiner(row.value, other)
            except Exception as error:
                return failed(error, key, row.value, timestamp, headers)
            forward(key, result, timestamp, headers)

        return process
