"""Which partition a key belongs to: a stable hash of its encoded bytes, modulo P. Part of what is on disk.

A windowed key belongs to the partition of its inner key, so that windowing never moves a record. A record without a key
stays on the task that has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raystreams.operators.errors import TopologyError
from raystreams.stores.serdes import KeySerde, partition_of

Partitioner = Callable[[Any, Any, int], int]


def router(key: KeySerde[Any], partitions: int, own: int, partitioner: Partitioner | None = None) -> Callable[[Any, Any], int]:
    """A function `(key, value) -> partition`. A user's partitioner may also say None: the default."""
    partition_bytes = key.partition_bytes

    def by_hash(key: Any, value: Any) -> int:
        return own if key is None else partition_of(partition_bytes(key), partitions)

    if partitioner is None:
        return (lambda key, value: 0) if partitions == 1 else by_hash

    def by_user(key: Any, value: Any) -> int:
        chosen = partitioner(key, value, partitions)
        if chosen is None:
            return by_hash(key, value)
        if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < partitions:
            raise TopologyError(
                f"a partitioner must return one partition from 0 to {partitions - 1}, or None for the default; got {chosen!r}"
            )
        return chosen

    return by_user
