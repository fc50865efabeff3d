"""From records to rows: the value's fields, with columns for the key and the time where the settings ask for them.

    {"user": "ann", "count": 3}                value a dict, dataclass, Struct, NamedTuple or pydantic model: its fields
    {"value": 3}                               anything else, and None
    {"key": "ann", "timestamp": 17, ...}       key="key", timestamp="timestamp"; a list for `key` takes a tuple apart
    {"key": "ann", "start": 0, "end": 60000}   a `Windowed` key under one name

Timestamps, starts and ends are milliseconds since the epoch, as everywhere. Where the key's column is also a field, the
field is what is written.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import msgspec
from raystreams.cluster.errors import SinkError
from raystreams.stores import hints
from raystreams.stores.values import Windowed

Row = dict[str, Any]


def fields_of_value(value: Any) -> Row:
    """Return a value as a row: its fields, or itself under the name `value`. A new dict, whose cells are the value's own."""
    cls = value.__class__
    if cls is dict:
        return dict(value) if _have_names([value]) else {"value": value}
    if dataclasses.is_dataclass(cls):
        names = _fields(type(value))  # type: ignore[arg-type]  # a class is hashable
        return {name: getattr(value, name) for name in names}
    if isinstance(value, msgspec.Struct):
        config = cls.__struct_config__
        tag = {} if config.tag is None else {config.tag_field: config.tag}
        return tag | dict(zip(cls.__struct_encode_fields__, msgspec.structs.astuple(value), strict=True))
    if hints.is_namedtuple(cls):
        return dict(value._asdict())
    if hints.is_pydantic(cls):
        return {name: getattr(value, name) for name in cls.model_fields}
    return {"value": value}


def are_objects(values: Sequence[Any]) -> bool:
    """Tell whether JSON writes each of these values as the same fields that `fields_of_value` returns."""
    classes = set(map(type, values))
    if dict in classes:
        classes.remove(dict)
        if not _have_names(values if not classes else [value for value in values if value.__class__ is dict]):
            return False
    return all(dataclasses.is_dataclass(cls) or issubclass(cls, msgspec.Struct) or hints.is_pydantic(cls) for cls in classes)


def _have_names(values: Sequence[dict[Any, Any]]) -> bool:
    """Whether all keys of all dicts are text. Joining them tells at a fifth of the cost of asking each."""
    try:
        for value in values:
            _join(value)
    except TypeError:
        return False
    return True


_join = "".join


@functools.lru_cache(maxsize=1024)
def _fields(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


@dataclasses.dataclass(frozen=True)
class RowColumns:
    """Which columns a sink adds to the value's fields."""

    key: str | Sequence[str] | None = None
    timestamp: str | None = None

    @property
    def adds(self) -> bool:
        """Whether there are any."""
        return self.key is not None or self.timestamp is not None

    def row(self, key: Any, value: Any, timestamp: int) -> Row:
        """Return a record as a row."""
        row = self._key_columns(key)
        if self.timestamp is not None:
            row[self.timestamp] = timestamp
        row.update(fields_of_value(value))
        return row

    def _key_columns(self, key: Any) -> Row:
        names = self.key
        if names is None:
            return {}
        if isinstance(names, str):
            if key.__class__ is Windowed:
                return {names: key.key, "start": key.start, "end": key.end}
            return {names: key}
        parts = (key.key, key.start, key.end) if key.__class__ is Windowed else key
        if dataclasses.is_dataclass(key.__class__) or isinstance(parts, msgspec.Struct):
            parts = tuple(fields_of_value(key).values())
        if not isinstance(parts, (tuple, list)) or len(parts) != len(names):
            raise SinkError(f"the key {key!r} can't be written as the columns {', '.join(names)}; set key to one column's name")
        return dict(zip(names, parts, strict=True))


def encode_hook(other: Any) -> Any:
    """Turn what msgspec can't encode into what it can: pydantic models into their fields."""
    if hints.is_pydantic(type(other)):
        return other.model_dump()
    raise NotImplementedError(f"a {type(other).__qualname__} has no form in text")
