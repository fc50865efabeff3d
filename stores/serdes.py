"""Serdes: how keys and values become bytes. A user gives a type, nothing (plain data), or a `Serde` of his own.

    value_serde(None)            plain data: msgpack with our extension types (`plain.py`)
    value_serde(Order)           that type, by msgspec, by field name (`typed.py`)
    value_serde(serde(A | B))    one of several types
    key_serde(tuple[str, int])   bytes that sort as the keys do (`keys.py`, `key_serdes.py`)

None is null and never reaches a serde. Each has a `description`, a stable text of its type, which stands in the
identity of a database; `check_readable` compares two of them.
Their `hint` is what they were made of, for those who read rows as that type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, Protocol, runtime_checkable

from raystreams.stores import hints
from raystreams.stores.errors import SerdeError
from raystreams.stores.key_serdes import key_codec, serde_key_codec
from raystreams.stores.keys import partition_of as partition_of
from raystreams.stores.typed import typed_codec
from raystreams.stores.values import Windowed
from typing_extensions import TypeVar

T = TypeVar("T", default=Any)
K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)


@runtime_checkable
class Serde(Protocol[T]):
    """What turns values of a type into bytes and back. `decode` returns a new object each time."""

    def encode(self, value: T) -> bytes:
        """Return the bytes of a value, which is never None."""
        ...

    def decode(self, data: bytes) -> T:
        """Return the value of bytes that `encode` made."""
        ...


class ValueSerde(Generic[V]):
    """The serde of a declared type, or of plain data."""

    __slots__ = ("decode", "description", "encode", "hint")

    def __init__(
        self, encode: Callable[[V], bytes], decode: Callable[[bytes], V], description: str, hint: Any = None
    ) -> None:
        self.encode, self.decode, self.description = encode, decode, description
        self.hint = hint

    def __repr__(self) -> str:
        return f"ValueSerde({self.description})"

    def __reduce__(self) -> tuple[Any, ...]:
        return value_serde, (self.hint,)


class KeySerde(Generic[K]):
    """The serde of keys: order-preserving, and no key's bytes are the beginning of another's."""

    __slots__ = ("decode", "description", "encode", "hint", "partition_bytes", "prefix")

    def __init__(
        self,
        encode: Callable[[K], bytes],
        decode: Callable[[bytes], K],
        prefix: Callable[[Any], bytes],
        partition_bytes: Callable[[K], bytes],
        description: str,
        hint: Any = None,
    ) -> None:
        self.encode, self.decode, self.prefix = encode, decode, prefix
        self.partition_bytes = partition_bytes
        self.description, self.hint = description, hint

    def __repr__(self) -> str:
        return f"KeySerde({self.description})"

    def __reduce__(self) -> tuple[Any, ...]:
        return key_serde, (self.hint,)


class _UnionSerde:
    """What `serde(A | B)` returns: a hint that type checkers take as a Serde of the union."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint
        self._encode, self._decode = typed_codec(hint)

    def encode(self, value: Any) -> bytes:
        return self._encode(value)

    def decode(self, data: bytes) -> Any:
        return self._decode(data)

    def __repr__(self) -> str:
        return f"serde({hints.describe(hints.schema(self.hint))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _UnionSerde) and self.hint == other.hint

    def __hash__(self) -> int:
        return hash(self.hint)

    def __reduce__(self) -> tuple[Any, ...]:
        return _UnionSerde, (self.hint,)


def serde(hint: Any) -> Serde[Any]:
    """Return a serde for a union of types, `serde(A | B)`, which `value=` can't take as a type.

    Any other type is allowed too.
    """
    return _UnionSerde(hint)


def value_serde(hint: Any = None) -> ValueSerde[Any]:
    """Return the serde of a type, of plain data for None and Any, or a wrapper of the Serde that is given.

    >>> value_serde(int).encode("7")
    Traceback (most recent call last):
    TypeError: the value '7' is a str, and int is declared
    """
    if isinstance(hint, (ValueSerde, KeySerde)):
        return ValueSerde(hint.encode, hint.decode, hint.description, hint.hint)
    if isinstance(hint, _UnionSerde):
        return ValueSerde(*typed_codec(hint.hint), describe_type(hint.hint), hint.hint)
    if hints.is_abstract_serde(hint):
        return ValueSerde(hint.encode, hint.decode, describe_type(hint), hint)
    _refuse_non_types(hint)
    encode, decode = typed_codec(hint)
    return ValueSerde(encode, decode, describe_type(hint), hint)


def key_serde(hint: Any = None) -> KeySerde[Any]:
    """Return the serde of keys of a type, of any plain key for None and Any, or of the Serde that is given."""
    if isinstance(hint, KeySerde):
        return hint
    if isinstance(hint, _UnionSerde):
        hint = hint.hint
    if hints.is_abstract_serde(hint):
        encode, decode, prefix = serde_key_codec(hint)
        return KeySerde(encode, decode, prefix, encode, describe_type(hint), hint)
    _refuse_non_types(hint)
    encode, decode, prefix = key_codec(hint)
    return KeySerde(encode, decode, prefix, _partition_bytes(hint, encode), describe_type(hint), hint)


def _partition_bytes(hint: Any, encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """A windowed key lives with its inner key: all windows of a key are in one partition."""
    if hints.origin_of(hint) is Windowed:
        inner = key_serde((getattr(hints.bare(hint), "__args__", None) or (None,))[0]).partition_bytes
        return lambda key: inner(key.key)
    if hints.plain_hint(hint):
        return lambda key: encode(key.key if key.__class__ is Windowed else key)
    return encode


def describe_type(hint: Any) -> str:
    """Return the stable text of a type or Serde: its name, or JSON where it has parts."""
    if isinstance(hint, (ValueSerde, KeySerde)):
        return hint.description
    if isinstance(hint, _UnionSerde):
        hint = hint.hint
    if hints.is_abstract_serde(hint):
        text = getattr(hint, "description", None)
        return text if isinstance(text, str) else f"Serde {type(hint).__qualname__}"
    found = hints.schema(hints.bare(hint))
    return found if isinstance(found, str) else json.dumps(found)


def difference(stored: str, wanted: str) -> str | None:
    """Say why what was written with one description can't be read with another; None if it can.

    >>> difference(describe_type(int), describe_type(str))
    'was int, is str'
    """
    return hints.difference(parsed_description(stored), parsed_description(wanted))


def parsed_description(description: str) -> hints.Schema:
    """Return the plain data that a description writes as text."""
    return json.loads(description) if description.startswith(("{", "[")) else description


def _refuse_non_types(hint: Any) -> None:
    if isinstance(hint, (str, bytes, int, float)) and not isinstance(hint, type):
        raise SerdeError(f"{hint!r} is not a type: give a type such as int, or a Serde")
