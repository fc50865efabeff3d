"""How a client writes the arguments of reads as bytes, and reads the answers: with the types of a handle, or of the store.

A handle with types decodes to them; they must be those of the job's store, values may have gained or lost fields. What a
handle leaves open, and all of a store that is asked for by name, comes as plain data: scalars and containers as they are,
classes as dicts, an Enum as its value, a key that is a class as a tuple of its fields. For that the store's description
is turned back into types, so that a key of another type is a TypeError here too. What a user's own Serde wrote needs it.
"""

from __future__ import annotations

import inspect
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Union
from uuid import UUID

from raystreams.cluster.errors import ConfigError
from raystreams.cluster.row_order import row_order
from raystreams.cluster.task_reads import READERS, Description
from raystreams.operators.options import Materialized
from raystreams.stores import hints
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.keyvalue import key_bounds
from raystreams.stores.plain import decode_plain
from raystreams.stores.serdes import (
    KeySerde,
    ValueSerde,
    describe_type,
    difference,
    key_serde,
    parsed_description,
    value_serde,
)
from raystreams.stores.values import VersionedRecord, Windowed, to_milliseconds
from raystreams.stores.versioned import history_bounds

Handle = str | Materialized[Any, Any] | StoreBuilder[Any]

_SCALARS: dict[str, Any] = {
    cls.__name__: cls for cls in (str, bytes, int, float, bool, datetime, date, time, timedelta, Decimal, UUID)
}
_CONTAINERS: dict[str, Any] = {cls.__name__: cls for cls in (list, dict, tuple, set, frozenset, Windowed)}


class Codec:
    """The arguments and answers of one store's reads."""

    def __init__(self, store: str, handle: Handle, description: Description) -> None:
        self._store, self._description = store, description
        if not isinstance(handle, str):
            _check_kind(store, handle.kind, description.kind)
        key, value = (None, None) if isinstance(handle, str) else (handle.key, handle.value)
        self.key = _key_serde(store, key, description.key)
        self._decode_key = self.key.decode
        self._decode = _value_serde(store, value, description.value).decode

    def arguments(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Return a method's arguments by name, as they travel; None for a range that is upside down, with a warning."""
        bound = _signature(self._description.kind, method).bind(None, *args, **kwargs).arguments
        del bound["self"]
        if method == "history":
            bound["start"], bound["end"] = history_bounds(bound["key"], bound.get("start"), bound.get("end"))
        if "first" in bound:
            bounds = key_bounds(self.key, bound["first"], bound["last"], self._store)
            if bounds is None:
                return None
            bound["first"], bound["last"] = bounds
        return {name: self._argument(name, given) for name, given in bound.items()}

    def _argument(self, name: str, given: Any) -> Any:
        if name == "key":
            return self.key.encode(given)
        if name == "prefix":
            return None if given is None else self.key.prefix(given)
        if name in ("first", "last", "reverse") or given is None:
            return given
        return to_milliseconds(given)

    def value(self, found: Any) -> Any:
        """Return what a point read gave."""
        if isinstance(found, bytes):
            return self._decode(found)
        return self._version(found) if isinstance(found, VersionedRecord) else found

    def row(self, row: Any) -> Any:
        """Return a row of a scan: `(key or Windowed or window start, value)`, or a version."""
        if isinstance(row, VersionedRecord):
            return self._version(row)
        key, value = row
        if isinstance(key, bytes):
            key = self._decode_key(key)
        elif isinstance(key, Windowed):
            key = Windowed(self._decode_key(key.key), key.start, key.end)
        return key, self._decode(value)

    def _version(self, version: VersionedRecord[bytes]) -> VersionedRecord[Any]:
        return VersionedRecord(self._decode(version.value), version.timestamp, version.valid_to)

    def place(self, method: str) -> Any:
        """Return a function that gives the place of an encoded row among those of other partitions."""
        place = row_order(self._description.kind, self._description.settings, method)

        def place_of(row: Any) -> Any:
            key = row[0]
            return place(key.key, key.start, key.end) if isinstance(key, Windowed) else place(key, 0, 0)

        return place_of


@lru_cache(maxsize=256)
def _signature(kind: str, method: str) -> inspect.Signature:
    return inspect.signature(getattr(READERS[kind], method))


def _check_kind(store: str, given: str, kind: str) -> None:
    given, kind = (name.replace("in_memory", "key_value").removeprefix("timestamped_") for name in (given, kind))
    if given != kind and (given != "key_value" or kind == "versioned"):  # a Materialized.key_value may hold windows
        raise TypeError(f"the store {store!r} of the job is a {kind} store, and the handle is one of a {given} store")


def _key_serde(store: str, hint: Any, description: str) -> KeySerde[Any]:
    if hints.plain_hint(hint) or describe_type(hint) == "plain":
        return key_serde(_type_of(store, description, "key"))
    if describe_type(hint) != description:
        raise _mismatch(store, "keys", description, describe_type(hint))
    return key_serde(hint)


def _value_serde(store: str, hint: Any, description: str) -> ValueSerde[Any]:
    if not hints.plain_hint(hint) and describe_type(hint) != "plain":
        if difference(description, describe_type(hint)) is not None:
            raise _mismatch(store, "values", description, describe_type(hint))
        return value_serde(hint)
    found = parsed_description(description)
    if isinstance(found, list) and found[0] == "union":  # the member's name stands in front
        plain = value_serde()
        return ValueSerde(plain.encode, lambda data: decode_plain(data[1 + data[0] :]), "plain")
    if hints.has_class(found) or hints.has_any(found):
        return value_serde()
    return value_serde(_type_of(store, description, "value"))


def _mismatch(store: str, what: str, stored: str, given: str) -> TypeError:
    stored, given = (hints.describe(parsed_description(text)) for text in (stored, given))
    return TypeError(f"the store {store!r} of the job has {what} of type {stored}, and the handle says {given}")


def _type_of(store: str, description: str, what: str) -> Any:
    found = parsed_description(description)
    if isinstance(found, str) and found not in ("plain", *_SCALARS, *_CONTAINERS):
        raise ConfigError(
            f"the {what}s of the store {store!r} are written by a Serde of the job's own ({found}): give a handle that has it, "
            f"such as Materialized.key_value({store!r}, {what}=...)"
        )
    return _type(found)


def _type(found: hints.Schema) -> Any:
    """Return the type of a schema, Any for what only its own class can make."""
    if isinstance(found, str):
        return _SCALARS.get(found) or _CONTAINERS.get(found) or {"None": type(None), "...": ...}.get(found, Any)
    if not isinstance(found, list) or found[0] == "literal":
        return Any
    members = tuple(map(_type, found[1:]))
    if found[0] == "union":
        return Any if Any in members else Union[members]  # noqa: UP007  (made at run time)
    container = _CONTAINERS.get(found[0])
    return Any if container is None else container[members]
