"""The serde of a windowed table's keys, made from that of the keys which were windowed."""

from __future__ import annotations

import struct
from typing import Any

from raystreams.stores import hints
from raystreams.stores.keys import windowed_bytes
from raystreams.stores.serdes import KeySerde, key_serde
from raystreams.stores.values import Windowed

_two_u64 = struct.Struct(">QQ")
_SIGN = 1 << 63


def windowed_key_serde(inner: KeySerde[Any]) -> KeySerde[Any]:
    """Keys `Windowed(key, start, end)` over `inner`; the same bytes as a declared `Windowed[K]` has."""
    hint = inner.hint
    if hint is None or hints.plain_hint(hint):
        return key_serde(Windowed)
    if not hints.is_abstract_serde(hint):
        declared: Any = Windowed
        return key_serde(declared[hint])

    def encode(key: Windowed[Any]) -> bytes:
        return windowed_bytes(inner.encode(key.key), key.start, key.end)

    def decode(data: bytes) -> Windowed[Any]:
        start, end = _two_u64.unpack_from(data, len(data) - 16)
        return Windowed(inner.decode(data[1:-16]), start - _SIGN, end - _SIGN)

    def partition_bytes(key: Windowed[Any]) -> bytes:
        return inner.partition_bytes(key.key)

    return KeySerde(encode, decode, encode, partition_bytes, f"Windowed {inner.description}", hint)
