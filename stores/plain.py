"""Plain data as msgpack: what is given comes back equal and of the same type, or is a SerdeError at once.

msgpack's own types carry None, bool, int (64 bits), float, str, bytes, list and dict; extension types carry the rest:

    1 datetime  2 date  3 time  4 timedelta  5 Decimal  6 UUID  7 tuple  8 set  9 frozenset  10 Windowed  11 int of any size

Classes are taken exactly: an Enum, a Counter, a numpy number or an object is refused rather than turned into something
that is only like it. Sets are written in the order of their elements' bytes, so equal sets have equal bytes.

The packer of `msgpack` writes, as it can be told to keep tuples apart from lists; the decoder of `msgspec` reads, as it
takes half the time. Packers are not safe to enter twice (nested values, threads), hence the pool.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgpack
import msgspec
from raystreams.stores.errors import SerdeError
from raystreams.stores.values import Windowed

_DATETIME, _DATE, _TIME, _TIMEDELTA, _DECIMAL, _UUID, _TUPLE, _SET, _FROZENSET, _WINDOWED, _INT = range(1, 12)
_MICROSECOND = timedelta(microseconds=1)

_packers: list[Any] = []


def encode_plain(value: Any) -> bytes:
    """Return the bytes of plain data; a SerdeError names what isn't.

    >>> decode_plain(encode_plain({"at": (1, 2.0)}))
    {'at': (1, 2.0)}
    """
    packer = _packers.pop() if _packers else msgpack.Packer(default=_extension, strict_types=True, use_bin_type=True)
    try:
        packed: bytes = packer.pack(value)
    except ValueError as error:  # too deep, or a str of lone surrogates
        raise SerdeError(f"a {type(value).__name__} can't be encoded: {error}") from error
    _packers.append(packer)  # after an error it is left behind, as its buffer may be half full
    return packed


def decode_plain(data: bytes | memoryview) -> Any:
    """Return the plain data of bytes, a new object each time; a SerdeError if they are damaged or something else."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise SerdeError(f"{len(data)} bytes can't be decoded as plain data: {error}") from error


def _extension(value: Any) -> Any:
    encoder = _EXTENSIONS.get(value.__class__)
    if encoder is None:
        raise SerdeError(cannot_encode(value))
    return encoder(value)


def cannot_encode(value: object) -> str:
    """Return the text that says why a value isn't plain data, and what to do."""
    name = type(value).__qualname__
    return (
        f"a value of type {name} can't be encoded without its type: pass value={name} to the operator, store or topic "
        f"(a dataclass, msgspec Struct, pydantic model, TypedDict or a Serde), or make it plain data"
    )


def _elements(code: int) -> Callable[[Any], Any]:
    def encode(value: set[Any] | frozenset[Any]) -> Any:
        return msgpack.ExtType(code, b"".join(sorted(map(encode_plain, value))))

    return encode


def _iso(code: int) -> Callable[[Any], Any]:
    return lambda value: msgpack.ExtType(code, value.isoformat().encode())


_EXTENSIONS: dict[type, Callable[[Any], Any]] = {
    datetime: _iso(_DATETIME),
    date: _iso(_DATE),
    time: _iso(_TIME),
    timedelta: lambda value: msgpack.ExtType(_TIMEDELTA, encode_plain(value // _MICROSECOND)),
    Decimal: lambda value: msgpack.ExtType(_DECIMAL, str(value).encode()),
    UUID: lambda value: msgpack.ExtType(_UUID, value.bytes),
    tuple: lambda value: msgpack.ExtType(_TUPLE, encode_plain(list(value))),
    set: _elements(_SET),
    frozenset: _elements(_FROZENSET),
    Windowed: lambda value: msgpack.ExtType(_WINDOWED, encode_plain([value.key, value.start, value.end])),
    int: lambda value: msgpack.ExtType(_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)),
}

PLAIN_CLASSES: frozenset[type] = frozenset((bool, float, str, bytes, list, dict, *_EXTENSIONS))
"""The classes whose instances are plain data, if what they hold is."""


def _decode_elements(data: memoryview) -> list[Any]:
    unpacker = msgpack.Unpacker(ext_hook=_plain_extension, strict_map_key=False, use_list=True)
    unpacker.feed(data)
    return list(unpacker)


def _decode_text(data: memoryview) -> str:
    return bytes(data).decode()


_DECODERS: dict[int, Callable[[memoryview], Any]] = {
    _DATETIME: lambda data: datetime.fromisoformat(_decode_text(data)),
    _DATE: lambda data: date.fromisoformat(_decode_text(data)),
    _TIME: lambda data: time.fromisoformat(_decode_text(data)),
    _TIMEDELTA: lambda data: timedelta(microseconds=decode_plain(data)),
    _DECIMAL: lambda data: Decimal(_decode_text(data)),
    _UUID: lambda data: UUID(bytes=bytes(data)),
    _TUPLE: lambda data: tuple(decode_plain(data)),
    _SET: lambda data: set(_decode_elements(data)),
    _FROZENSET: lambda data: frozenset(_decode_elements(data)),
    _WINDOWED: lambda data: Windowed(*decode_plain(data)),
    _INT: lambda data: int.from_bytes(data, "big", signed=True),
}


def _plain_extension(code: int, data: Any) -> Any:
    decoder = _DECODERS.get(code)
    if decoder is None:
        raise SerdeError(f"extension type {code} is unknown: the data may have been written by a newer version")
    return decoder(data)


_decode = msgspec.msgpack.Decoder(ext_hook=_plain_extension).decode
