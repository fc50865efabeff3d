"""Values of declared types, written and read by msgspec; classes by their field names.

What is encoded can be read again: a value that is no `Order`, or an `Order` with a float where an int is declared, is a
TypeError at the operator that made it, and not a row that nobody can read after the commit. For that, what has parts is
decoded once when it is encoded (0.2 us for a small record).

A hint with a part that can be anything (`dict[str, Any]`) is plain data inside, so that a tuple or a Decimal in it comes
back as one; msgspec alone would return lists and strings. A record with such a part: `structural.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from raystreams.stores import hints
from raystreams.stores.errors import SerdeError, type_mismatch
from raystreams.stores.plain import PLAIN_CLASSES, decode_plain, encode_plain
from raystreams.stores.structural import form_of
from typing_extensions import is_typeddict

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]


def typed_codec(hint: Any) -> tuple[Encode, Decode]:
    """Return how values of a type are encoded and decoded; a SerdeError if the type can't be a value's."""
    hint = hints.bare(hint)
    members = hints.union_members(hint)
    if members:
        return _union(members)
    cls = dict if is_typeddict(hint) else hints.origin_of(hint)
    if hints.is_namedtuple(cls):
        return _namedtuple(hint, cls)
    found = hints.schema(hint)
    if cls is None or (not hints.has_class(found) and (hints.has_any(found) or not isinstance(found, list))):
        return _plain(hint, cls)
    return _structural(hint, cls) if hints.has_any(found) else _msgspec(hint, cls)


def _plain(hint: Any, cls: Any) -> tuple[Encode, Decode]:
    """Scalars, containers without a class in them, and anything: plain data, its class checked."""
    name = hints.describe(hints.schema(hint))
    if cls is None:
        return encode_plain, decode_plain
    if cls is float:

        def encode_float(value: Any) -> bytes:
            if value.__class__ is float:
                return encode_plain(value)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return encode_plain(float(value))
            raise type_mismatch(name, value, "value")

        return encode_float, decode_plain
    if not isinstance(cls, type) or cls not in PLAIN_CLASSES:
        raise SerdeError(
            f"{name} can't be the type of a key or value: use scalars, containers of them, a dataclass, msgspec "
            f"Struct, pydantic model, TypedDict or Windowed, or give a Serde (an object with encode and decode)"
        )
    fast = _encode_scalar if cls in (str, bool, bytes, int) else encode_plain

    def encode(value: Any) -> bytes:
        if value.__class__ is not cls:
            value = _converted(cls, value, name)
        return fast(value)

    return encode, decode_plain


_encode_msgpack = msgspec.msgpack.Encoder().encode


def _encode_scalar(value: Any) -> bytes:
    try:
        return _encode_msgpack(value)
    except (OverflowError, ValueError):  # an int past 64 bits; a lone surrogate
        return encode_plain(value)


def _converted(cls: Any, value: Any, name: str) -> Any:
    """Accept a subclass that is only a name for the same data, such as a StrEnum or an OrderedDict."""
    if isinstance(value, cls) and not isinstance(value, bool):
        if cls is str:
            return str.__str__(value)
        if cls in (int, bytes, dict, list, set, frozenset) or (cls is tuple and not hasattr(value, "_fields")):
            return cls(value)
    raise type_mismatch(name, value, "value")


def _msgspec(hint: Any, cls: Any) -> tuple[Encode, Decode]:
    name = hints.describe(hints.schema(hint))
    try:
        decoder = msgspec.msgpack.Decoder(hint, dec_hook=_from_builtins)
    except (TypeError, NameError) as error:
        raise SerdeError(f"{name} can't be the type of a key or value: {error}. Give a Serde instead") from error
    encoder = msgspec.msgpack.Encoder(enc_hook=_to_builtins).encode
    decoder_decode = decoder.decode

    def encode(value: Any) -> bytes:
        if not isinstance(value, cls):
            raise type_mismatch(name, value, "value")
        try:
            data = encoder(value)
            decoder_decode(data)
        except msgspec.DecodeError as error:
            raise TypeError(f"the {name} {value!r} is not as declared: {error}") from error
        except (TypeError, OverflowError, ValueError) as error:
            raise SerdeError(f"the {name} {value!r} can't be encoded: {error}") from error
        return data

    def decode(data: bytes) -> Any:
        try:
            return decoder_decode(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise SerdeError(f"{len(data)} bytes can't be decoded as {name}: {error}") from error

    return encode, decode


def _structural(hint: Any, cls: Any) -> tuple[Encode, Decode]:
    name = hints.describe(hints.schema(hint))
    away, back = form_of(hint) or (None, None)
    assert away is not None  # there is a class in it
    assert back is not None

    def encode(value: Any) -> bytes:
        if not isinstance(value, cls):
            raise type_mismatch(name, value, "value")
        return encode_plain(away(value))

    def decode(data: bytes) -> Any:
        try:
            return back(decode_plain(data))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise SerdeError(f"{len(data)} bytes can't be decoded as {name}: {error}") from error

    return encode, decode


def _to_builtins(value: Any) -> Any:
    if hints.is_pydantic(type(value)):
        return value.model_dump()
    raise SerdeError(f"a {type(value).__qualname__} inside a declared type can't be encoded; declare it, or give a Serde")


def _from_builtins(cls: type, data: Any) -> Any:
    if hints.is_pydantic(cls):
        try:
            return cls.model_validate(data, by_name=True)  # type: ignore[attr-defined]  # pydantic is not imported
        except TypeError:  # before pydantic 2.11
            return cls.model_validate(data)  # type: ignore[attr-defined]  # as above
    raise SerdeError(f"{cls.__qualname__} is not a type that msgspec can decode; give a Serde")


def _namedtuple(hint: Any, cls: Any) -> tuple[Encode, Decode]:
    """A NamedTuple by its field names too, as msgspec would write positions."""
    record = msgspec.defstruct(
        cls.__name__,
        [
            (field, hint, cls._field_defaults[field]) if has_default else (field, hint)
            for field, (hint, has_default) in hints.fields_of(cls).items()
        ],
    )
    encode_record, decode_record = _msgspec(record, record)
    name = cls.__name__

    def encode(value: Any) -> bytes:
        if value.__class__ is not cls:
            raise type_mismatch(name, value, "value")
        return encode_record(record(*value))

    def decode(data: bytes) -> Any:
        return cls(*msgspec.structs.astuple(decode_record(data)))

    return encode, decode


def _union(members: tuple[Any, ...]) -> tuple[Encode, Decode]:
    """A union: the member's name goes in front, so two classes with the same fields stay apart."""
    names = [hints.describe(hints.schema(member)) for member in members]
    if len(set(names)) < len(names):
        raise SerdeError(f"two types of the union {' | '.join(names)} have one name: give a Serde instead")
    codecs = [(hints.origin_of(m), name.encode(), *typed_codec(m)) for m, name in zip(members, names, strict=True)]
    by_name = {tag: decode for _, tag, _, decode in codecs}

    def encode(value: Any) -> bytes:
        for exact in (True, False):
            for cls, tag, encode_member, _ in codecs:
                if value.__class__ is cls if exact else isinstance(value, cls or object):
                    return bytes((len(tag),)) + tag + encode_member(value)
        raise type_mismatch(" | ".join(names), value, "value")

    def decode(data: bytes) -> Any:
        end = 1 + data[0]
        decode_member = by_name.get(bytes(data[1:end]))
        if decode_member is None:
            raise SerdeError(f"a value of type {bytes(data[1:end])!r} was stored, and {' | '.join(names)} is declared")
        return decode_member(data[end:])

    return encode, decode

