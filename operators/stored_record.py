"""A record's value and headers as bytes, for operators that keep records back until their time has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from raystreams.operators.record import Headers
from raystreams.stores.serdes import Serde
from raystreams.stores.values import NO_HEADERS

_decode = msgspec.msgpack.Decoder(tuple[bytes | None, dict[str, bytes] | None]).decode
_encode = msgspec.msgpack.Encoder().encode


def packing(value: Serde[Any]) -> tuple[Callable[[Any, Headers], bytes], Callable[[bytes], tuple[Any, Headers]]]:
    """`pack(value, headers)` and `unpack(bytes)` for values of a serde; null values stay null."""
    encode_value, decode_value = value.encode, value.decode

    def pack(value: Any, headers: Headers) -> bytes:
        return _encode((None if value is None else encode_value(value), dict(headers) if headers else None))

    def unpack(data: bytes) -> tuple[Any, Headers]:
        value, headers = _decode(data)
        return None if value is None else decode_value(value), NO_HEADERS if headers is None else headers

    return pack, unpack
