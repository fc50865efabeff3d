"""Keys of declared types: checked where they are made, and built again from their bytes.

The bytes are those of `keys.py` whatever the declaration says, so a store that is opened as plain data reads the same keys:
a dataclass, Struct, NamedTuple or pydantic model is the tuple of its fields, an Enum its value. A user's own Serde gives
bytes, which are encoded as a key of bytes; they sort as the Serde makes them.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from raystreams.stores import hints, keys
from raystreams.stores.errors import SerdeError
from raystreams.stores.values import Windowed

Encode = Callable[[Any], bytes]
Build = Callable[[Any], Any]
"""Makes a key of the declared type from what `keys.decode_key` returns."""

_SCALARS = (str, bytes, int, float, bool, datetime, date, UUID, Decimal, time, timedelta)


def key_codec(hint: Any) -> tuple[Encode, Callable[[bytes], Any], Encode]:
    """Return how keys of a type are encoded, decoded, and made the beginning of a prefix scan."""
    hint = hints.bare(hint)
    if hints.plain_hint(hint):
        return keys.encode_key, keys.decode_key, plain_prefix
    if hint is str:
        return keys.encode_str, _decode_str, plain_prefix
    encode, build = _codec(hint)
    if build is None:
        return encode, keys.decode_key, plain_prefix
    made = build
    return encode, lambda data: made(keys.decode_key(data)), plain_prefix


def plain_prefix(prefix: Any) -> bytes:
    """Return what the bytes of all keys begin with that begin with `prefix`: a str, bytes, or first elements of a tuple.

    A key of another type begins only with itself.
    """
    if isinstance(prefix, (str, bytes)):
        return keys.encode_key(prefix)[:-2]
    if isinstance(prefix, tuple):
        return keys.TUPLE + b"".join(keys.NONE if part is None else keys.encode_key(part) for part in prefix)
    if hints.has_fields(type(prefix)):
        return key_codec(type(prefix))[0](prefix)
    return keys.encode_key(prefix)


def serde_key_codec(serde: Any) -> tuple[Encode, Callable[[bytes], Any], Encode]:
    """Return the codec for keys that a user's Serde encodes."""

    def encode(key: Any) -> bytes:
        if key is None:
            raise ValueError("a key must not be None")
        return keys.BYTES + keys.escape(_bytes_of(serde, key))

    def decode(data: bytes) -> Any:
        return serde.decode(keys.unescape(data, 1)[0])

    return encode, decode, lambda prefix: encode(prefix)[:-2]


def _bytes_of(serde: Any, value: Any) -> bytes:
    raw = serde.encode(value)
    if not isinstance(raw, bytes):
        raise SerdeError(f"{type(serde).__qualname__}.encode returned a {type(raw).__qualname__}, and not bytes")
    return raw


def _decode_str(data: bytes) -> Any:
    return keys.decode_str(data) if data[0] == 4 else keys.decode_key(data)


def _codec(hint: Any) -> tuple[Encode, Build | None]:
    """Return the encoder of a type, and what its decoded key has to be made into, if anything."""
    hint = hints.bare(hint)
    if hints.plain_hint(hint) or typing.get_origin(hint) is typing.Literal:
        return keys.encode_key, None
    if hints.union_members(hint):
        return _union(hints.union_members(hint)), None
    cls = hints.origin_of(hint)
    if cls is Windowed:
        return _windowed(hint)
    if cls is tuple:
        return _tuple(hint)
    if isinstance(cls, type) and issubclass(cls, enum.Enum):
        return _enum(cls)
    if hints.has_fields(cls) and cls is not dict:
        return _record(hint, cls)
    if cls not in _SCALARS:
        name = hints.describe(hints.schema(hint))
        raise SerdeError(
            f"{name} can't be the type of a key: use str, bytes, int, float, bool, datetime, date, UUID, Decimal, a tuple, "
            f"dataclass, Struct or NamedTuple of them, Windowed, or give a Serde"
        )
    if cls is str:
        return keys.encode_str, None
    if cls is int:
        return keys.encode_int, None
    return _scalar(cls), float if cls is float else None


def _scalar(cls: type) -> Encode:
    name = cls.__name__

    def encode(key: Any) -> bytes:
        if key.__class__ is not cls:
            if cls is float and isinstance(key, int) and not isinstance(key, bool):
                return keys.encode_float(float(key))
            if not isinstance(key, cls) or cls not in (float, bytes):
                raise keys.key_mismatch(name, key)
        return keys.encode_key(key)

    return encode


def _element(hint: Any) -> Encode:
    """An element of a tuple or a field, which may be None if its type says so."""
    encode, _ = _codec(hint)
    plain = hints.plain_hint(hint)
    optional = plain or hints.bare(hint) != hint or hint is type(None)

    def encode_optional(key: Any) -> bytes:
        return keys.NONE if key is None else encode(key)

    return encode_optional if optional else encode


def _element_build(hint: Any) -> Build | None:
    build = _codec(hint)[1]
    return None if build is None else lambda key: None if key is None else build(key)


def _tuple(hint: Any) -> tuple[Encode, Build | None]:
    arguments = typing.get_args(hint)
    name = hints.describe(hints.schema(hint))
    if not arguments:
        return _checked_tuple(name), None
    if arguments[-1] is ...:
        each, build_each = _element(arguments[0]), _element_build(arguments[0])

        def encode_any(key: Any) -> bytes:
            if not isinstance(key, tuple):
                raise keys.key_mismatch(name, key)
            return keys.TUPLE + b"".join(map(each, key)) + keys.TUPLE_END

        return encode_any, None if build_each is None else lambda key: tuple(map(build_each, key))
    elements = [_element(argument) for argument in arguments]
    builds = [_element_build(argument) for argument in arguments]

    def encode(key: Any) -> bytes:
        if not isinstance(key, tuple) or len(key) != len(elements):
            raise keys.key_mismatch(name, key)
        return keys.TUPLE + b"".join([e(part) for e, part in zip(elements, key)]) + keys.TUPLE_END  # noqa: B905

    return encode, None if not any(builds) else lambda key: tuple(_built(builds, key))


def _checked_tuple(name: str) -> Encode:
    def encode(key: Any) -> bytes:
        if not isinstance(key, tuple):
            raise keys.key_mismatch(name, key)
        return keys.encode_key(key)

    return encode


def _built(builds: list[Build | None], parts: tuple[Any, ...]) -> list[Any]:
    return [part if build is None else build(part) for build, part in zip(builds, parts, strict=True)]


def _record(hint: Any, cls: Any) -> tuple[Encode, Build]:
    fields = hints.fields_of(hint)
    elements = [_element(hint) for hint, _ in fields.values()]
    builds = [_element_build(hint) for hint, _ in fields.values()]
    names = list(fields)

    def encode(key: Any) -> bytes:
        if key.__class__ is not cls:
            raise keys.key_mismatch(cls.__qualname__, key)
        parts = [element(getattr(key, name)) for element, name in zip(elements, names)]  # noqa: B905
        return keys.TUPLE + b"".join(parts) + keys.TUPLE_END

    def build(parts: Any) -> Any:
        if not isinstance(parts, tuple) or len(parts) != len(names):
            raise SerdeError(f"the stored key {parts!r} is no {cls.__qualname__}")
        return cls(**dict(zip(names, _built(builds, parts), strict=True)))

    return encode, build


def _enum(cls: type[enum.Enum]) -> tuple[Encode, Build]:
    def encode(key: Any) -> bytes:
        if not isinstance(key, cls):
            raise keys.key_mismatch(cls.__qualname__, key)
        return keys.encode_key(key.value)

    return encode, cls


def _union(members: tuple[Any, ...]) -> Encode:
    for member in members:
        if hints.origin_of(member) not in (*_SCALARS, tuple) or _codec(member)[1] not in (None, float):
            name = hints.describe(hints.schema(member))
            raise SerdeError(f"{name} can't be part of a union of key types; use a tuple with a tag, or give a Serde")
    encoders = {hints.origin_of(member): _codec(member)[0] for member in members}
    name = " | ".join(hints.describe(hints.schema(member)) for member in members)

    def encode(key: Any) -> bytes:
        encoder = encoders.get(key.__class__)
        if encoder is None:
            raise keys.key_mismatch(name, key)
        return encoder(key)

    return encode


def _windowed(hint: Any) -> tuple[Encode, Build | None]:
    arguments = typing.get_args(hint)
    inner, build = _codec(arguments[0]) if arguments else (keys.encode_key, None)
    name = hints.describe(hints.schema(hint))

    def encode(key: Any) -> bytes:
        if key.__class__ is not Windowed:
            raise keys.key_mismatch(name, key)
        return keys.windowed_bytes(inner(key.key), key.start, key.end)

    made = build
    return encode, None if made is None else lambda key: Windowed(made(key.key), key.start, key.end)
