"""From rows to records: which columns are the key and the time, and how a row becomes a value of the topic's type.

    key         a column; a list of them makes a tuple
    timestamp   a column, or "arrival": the wall clock when the row is read
    value       a column that is the value, in place of the whole row
    deleted     a column that says, where it is true, that the row is a tombstone: the value is None

The topic's types decide: without any, a value is the row as a dict; a class takes the columns that are its fields, others
are passed over; what has no fields (`int`, `list[float]`) is in the column `value`. Text columns (CSV) are read as what
the type says. A batch is converted in a few calls; where that fails, its halves are, until each bad row is named.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from raystreams.cluster.connectors.base import reading_of
from raystreams.cluster.connectors.timestamps import RowError, TimeColumn, Unit
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.suggest import did_you_mean
from raystreams.operators.options import OnError, Topic
from raystreams.stores import hints
from raystreams.stores.values import Duration, Windowed
from typing_extensions import is_typeddict

S = TypeVar("S", bound="RowSettings")

ARRIVAL = "arrival"

Columns = tuple[list[Any], list[Any], list[int]]
"""Keys, values, timestamps."""

BAD = (RowError, msgspec.DecodeError, TypeError, ValueError)
"""What converting a batch with a bad row raises."""

_TRUE = {"true", "t", "yes", "y", "1"}
_FALSE = {"false", "f", "no", "n", "0", ""}
_PATH = re.compile(r"(.*) - at `\$(?:\[\d*\])?\.?(.*)`\Z", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class RowSettings:
    """What every source of rows may say about them (see this file), and about how its records are taken (`Reading`)."""

    key: str | Sequence[str] | None = None
    timestamp: str | None = None
    timestamp_unit: Unit = "ms"
    timestamp_format: str | None = None
    time_zone: str | None = None
    value: str | None = None
    deleted: str | None = None
    disorder: Duration = 0
    idle_after: Duration | None = None
    partitioned: bool = False
    on_error: OnError | None = None

    def __post_init__(self) -> None:
        reading_of(self)  # type: ignore[arg-type]  # its settings are there; what it reads, a subclass says
        if self.timestamp is not None and self.timestamp != ARRIVAL:
            TimeColumn(self.timestamp, self.timestamp_unit, self.time_zone, self.timestamp_format)

    def for_topic(self: S, topic: Topic[Any, Any]) -> S:
        """Return this source, reading its rows as the topic's types."""
        bound = copy.copy(self)
        object.__setattr__(bound, "_topic", topic)
        bound.format()
        return bound

    def format(self, *, text: bool = False) -> RowFormat:
        """Return how rows become records. `text`: their columns are all text."""
        return RowFormat(self, getattr(self, "_topic", None), text=text)


class RowFormat:
    """Turns rows (mappings, or objects with attributes) into columns of records."""

    def __init__(self, settings: RowSettings, topic: Topic[Any, Any] | None, *, text: bool = False) -> None:
        self._settings = settings
        key = () if settings.key is None else (settings.key,) if isinstance(settings.key, str) else tuple(settings.key)
        self.key_columns: tuple[str, ...] = key
        self.time_column = None if settings.timestamp in (None, ARRIVAL) else settings.timestamp
        self._single_key = settings.key is None or isinstance(settings.key, str)
        self._times = (
            TimeColumn(self.time_column, settings.timestamp_unit, settings.time_zone, settings.timestamp_format)
            if self.time_column is not None
            else None
        )
        self.key_hint = None if topic is None else _type_of(topic.key)
        self.value_hint = None if topic is None else _type_of(topic.value)
        self._convert = _converter(strict=not text)
        self.value_column = settings.value
        if self.value_column is None and self.value_hint is not None and not _takes_rows(self.value_hint):
            self.value_column = "value"
        self._rebuild = _namedtuple(self.value_hint)
        self._cls = hints.origin_of(self.value_hint) if self.value_hint is not None else None
        self._row_type = _list_of(self._rebuild[0] if self._rebuild else self.value_hint)
        self._key_type = None if self.key_hint is None else _list_of(self.key_hint | None)
        if not self._is_readable(self._row_type):
            name = hints.describe(hints.schema(self.value_hint))
            raise ConfigError(f"rows can't be read as {name}: msgspec has no way to make one. Give the topic another value type")

    def _is_readable(self, hint: Any) -> bool:
        try:
            self._convert([], hint or list)
        except TypeError:
            return False
        return True

    @property
    def named_columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that the settings name, by setting."""
        others = {"timestamp": self.time_column, "value": self.value_column, "deleted": self._settings.deleted}
        return {"key": self.key_columns} | {what: (name,) for what, name in others.items() if name is not None}

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """All columns that the settings name."""
        return tuple(dict.fromkeys(name for names in self.named_columns.values() for name in names))

    @property
    def is_direct(self) -> bool:
        """Whether a value is the whole row, of a type that a decoder can make without a dict in between."""
        plain = self.value_column is None and self._settings.deleted is None
        return plain and self.value_hint is not None and self._rebuild is None and not hints.is_pydantic(self._cls)

    def fields(self) -> dict[str, tuple[Any, bool]] | None:
        """The columns that a value is made of: name -> (type, whether it may be missing); None: all of them."""
        if self.value_column is not None:
            return {self.value_column: (self.value_hint, False)}
        if self.value_hint is None or not hints.has_fields(self._cls_with_fields()):
            return None
        return hints.fields_of(self.value_hint)

    def _cls_with_fields(self) -> Any:
        return self.value_hint if is_typeddict(self.value_hint) else self._cls

    def used(self, names: Sequence[str], where: object) -> set[str]:
        """Return the columns that are used, of those that a file has; a ConfigError for one that it should have."""
        for what, needed in self.named_columns.items():
            for name in needed:
                if name not in names:
                    raise ConfigError(f"{where}: {what}: {missing_column(name, names)}")
        fields = self.fields()
        if fields is None:
            return set(names)
        for name, (_, optional) in fields.items():
            if name not in names and not optional:
                kind = hints.describe(hints.schema(self.value_hint))
                raise ConfigError(f"{where}: {missing_column(name, names)} (a field of {kind})")
        return {name for name in names if name in fields or name in self.extra_columns}

    def columns(self, rows: Sequence[Any]) -> Columns:
        """Return a batch as columns; an error if any row is bad (see `each`)."""
        keys = self.keys([_column(rows, name) for name in self.key_columns], len(rows))
        times = self.times([] if self.time_column is None else _column(rows, self.time_column), len(rows))
        return keys, self._values(rows), times

    def each(self, rows: Sequence[Any]) -> tuple[Columns, list[int], list[tuple[int, str]]]:
        """Convert a batch with bad rows; see `sorted_out`."""
        return sorted_out(rows, self.columns)

    def keys(self, cells: Sequence[Sequence[Any]], count: int) -> list[Any]:
        """Return the keys of a batch from the columns that make them."""
        if not cells:
            return [None] * count
        found = list(cells[0]) if self._single_key else list(zip(*cells, strict=True))
        if self._key_type is None:
            return found
        if not self._single_key and hints.origin_of(self.key_hint) is Windowed:
            inner = (getattr(hints.bare(self.key_hint), "__args__", None) or (Any,))[0]
            keys = self._convert(list(cells[0]), _list_of(inner))
            return [Windowed(key, *map(int, bounds)) for key, *bounds in zip(keys, *cells[1:], strict=True)]
        if not self._single_key and hints.has_fields(hints.origin_of(self.key_hint)):
            found = [dict(zip(self.key_columns, one, strict=True)) for one in found]
        try:
            keys = self._convert(found, self._key_type)
        except msgspec.ValidationError as error:
            names = ", ".join(map(repr, self.key_columns))
            raise RowError(f"the key in {names}: {_without_path(str(error))}") from error
        return list(keys)

    def times(self, cells: Sequence[Any], count: int) -> list[int]:
        """Return the timestamps of a batch: of their column, of the clock, or 0."""
        if self._times is not None:
            return self._times.milliseconds(cells)
        return [time.time_ns() // 1_000_000 if self._settings.timestamp == ARRIVAL else 0] * count

    def _values(self, rows: Sequence[Any]) -> list[Any]:
        deleted = self._settings.deleted
        if deleted is None:
            return self._living(rows)
        gone = [_is_true(cell, deleted) for cell in _column(rows, deleted)]
        living = iter(self._living([row for row, is_gone in zip(rows, gone, strict=True) if not is_gone]))
        return [None if is_gone else next(living) for is_gone in gone]

    def _living(self, rows: Sequence[Any]) -> list[Any]:
        given = list(rows) if self.value_column is None else _column(rows, self.value_column)
        if self._row_type is None or self._is_made(given):
            return given
        made = self._convert(given, self._row_type)
        return [self._rebuild[1](*msgspec.structs.astuple(one)) for one in made] if self._rebuild else list(made)


    def _is_made(self, given: Sequence[Any]) -> bool:
        cls = self._cls
        return cls is not None and cls is not dict and all(isinstance(one, cls) for one in given)


def sorted_out(
    rows: Sequence[Any], convert: Callable[[Sequence[Any]], Columns]
) -> tuple[Columns, list[int], list[tuple[int, str]]]:
    """Convert by halves, down to the bad rows. Return columns, the good rows' indexes, and (index, reason) of the bad ones."""
    columns: Columns = ([], [], [])
    good: list[int] = []
    bad: list[tuple[int, str]] = []
    parts = [(0, len(rows))]
    while parts:
        start, end = parts.pop()
        try:
            converted = convert(rows[start:end])
        except BAD as error:
            middle = (start + end) // 2
            if middle == start:
                bad.append((start, reason_of(error)))
            else:
                parts += [(middle, end), (start, middle)]
            continue
        for column, more in zip(columns, converted, strict=True):
            column += more
        good += range(start, end)
    return columns, good, bad


def reason_of(error: Exception) -> str:
    """Return why a row is bad, in words that name its column."""
    if type(error) is msgspec.DecodeError:
        return f"it is no JSON ({error})"
    found = _PATH.match(str(error)) if isinstance(error, msgspec.ValidationError) else None
    if found is None:
        return str(error)
    text, path = found.groups()
    return f"column {path!r}: {text}" if path else text


def missing_column(name: str, there: Sequence[str]) -> str:
    """Return the text for a column that isn't there."""
    return f"no column {name!r}{did_you_mean(name, there)}"


def _without_path(text: str) -> str:
    found = _PATH.match(text)
    return found[1] if found else text


def _column(rows: Sequence[Any], name: str) -> list[Any]:
    """One column of all rows, which are mappings, or objects of the topic's type."""
    try:
        return [row[name] for row in rows]
    except KeyError as error:
        there = next(list(row) for row in rows if name not in row)
        raise RowError(missing_column(name, there)) from error
    except (TypeError, IndexError):
        pass
    cells = []
    for row in rows:
        if isinstance(row, Mapping):
            if name not in row:
                raise RowError(missing_column(name, list(row)))
            cells.append(row[name])
        elif hints.has_fields(type(row)):
            if not hasattr(row, name):
                raise RowError(missing_column(name, list(hints.fields_of(type(row)))))
            cells.append(getattr(row, name))
        else:
            raise RowError(f"the row is a {type(row).__name__}, and no object with columns")
    return cells


def _is_true(cell: Any, column: str) -> bool:
    if isinstance(cell, str):
        text = cell.strip().lower()
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
    elif cell is None or isinstance(cell, (bool, int, float)):
        return bool(cell)
    raise RowError(f"column {column!r} has {cell!r}, which is neither true nor false")


def _type_of(hint: Any) -> Any:
    """What rows are converted to: None where nothing is said, or a user's own Serde says it."""
    hint = getattr(hint, "hint", hint)  # of serde(A | B) and of our serdes
    if hints.plain_hint(hint) or hints.is_abstract_serde(hint):
        return None
    return hints.bare(hint)


def _takes_rows(hint: Any) -> bool:
    """Whether a whole row can be a value of this type."""
    members = hints.union_members(hint)
    if members:
        return all(map(_takes_rows, members))
    cls = hints.origin_of(hint)
    return is_typeddict(hint) or cls is dict or hints.has_fields(cls)


def _list_of(hint: Any) -> Any:
    return None if hint is None else list[hint]


def _namedtuple(hint: Any) -> tuple[Any, Any] | None:
    """msgspec makes a NamedTuple of a list; a row has names, so it goes by way of a Struct with the same fields."""
    cls = hints.origin_of(hint) if hint is not None else None
    if cls is None or not hints.is_namedtuple(cls):
        return None
    fields = [
        (name, of, cls._field_defaults[name]) if has_default else (name, of)
        for name, (of, has_default) in hints.fields_of(cls).items()
    ]
    return msgspec.defstruct(cls.__name__, fields), cls


def _converter(*, strict: bool) -> Callable[[Any, Any], Any]:
    def make(cls: type, row: Any) -> Any:
        if hints.is_pydantic(cls):
            try:
                return cls.model_validate(row, strict=False)  # type: ignore[attr-defined]  # pydantic is not imported
            except ValueError as error:
                raise RowError(f"{cls.__name__}: {_first_line(error)}") from error
        raise TypeError(f"{cls.__qualname__} can't be made of a row")

    return lambda given, hint: msgspec.convert(given, hint, strict=strict, dec_hook=make)


def _first_line(error: Exception) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines()[1:3])
