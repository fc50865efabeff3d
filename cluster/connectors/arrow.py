"""Rows of Arrow data, for Parquet and data frames. pyarrow is an extra, and imported where it is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec
from raystreams.cluster.connectors.row_writer import encode_hook
from raystreams.cluster.errors import ConfigError
from raystreams.stores import hints

if TYPE_CHECKING:
    import pyarrow

_SCALARS = {str: "string", int: "int64", float: "float64", bool: "bool_", bytes: "binary", date: "date32"}


def require_pyarrow(what: str) -> None:
    """Raise ConfigError where pyarrow is not installed; nothing is imported."""
    if find_spec("pyarrow") is None:
        raise ConfigError(f"{what} needs pyarrow: pip install 'raystreams[parquet]'")


def python_rows(batch: pyarrow.RecordBatch) -> list[dict[str, Any]]:
    """Return a batch as rows of Python values; nanoseconds are cut to microseconds, which is what datetime has."""
    pa = import_module("pyarrow")
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            column = column.cast(pa.timestamp("us", field.type.tz), safe=False)
        columns.append(column)
    rows: list[dict[str, Any]] = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
    return rows


def table_of(frame: Any) -> pyarrow.Table:
    """Return anything that exports Arrow data (pandas, polars, Arrow, DuckDB ...) as a table, without a copy where it can."""
    pa = import_module("pyarrow")
    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(frame).read_all()
    if hasattr(frame, "iloc"):
        return pa.Table.from_pandas(frame, preserve_index=False)
    raise TypeError(f"frame: a {type(frame).__name__} gives no Arrow data (it has no __arrow_c_stream__)")


def batches_of(table: pyarrow.Table, done: int, size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a table after the first `done`, some at a time."""
    for batch in table.slice(done).to_batches(max_chunksize=size):
        yield python_rows(batch)


def as_table(rows: Sequence[dict[str, Any]], hint: Any, times: Sequence[str]) -> pyarrow.Table:
    """Return rows as a table. `hint`, the type of their values, fixes columns' types; of `times`, it is milliseconds in UTC.

    A column that no type says anything of is what its cells are.
    """
    pa = import_module("pyarrow")
    kinds = (bytes, datetime, date, time, Decimal)
    plain = msgspec.to_builtins(rows, str_keys=True, builtin_types=kinds, enc_hook=encode_hook)
    names = list(dict.fromkeys(name for row in plain for name in row))
    declared = _declared(hint)
    columns = []
    for name in names:
        cells = [row.get(name) for row in plain]
        kind = pa.timestamp("ms", "UTC") if name in times else declared.get(name)
        columns.append(pa.array(cells, kind))
    return pa.table(columns, names=names)


def _declared(hint: Any) -> dict[str, Any]:
    """The Arrow types of a class's fields, as far as they are plain."""
    cls = hints.origin_of(hint) if hint is not None else None
    if cls is None or not hints.has_fields(cls):
        return {}
    types = {name: _arrow_type(of) for name, (of, _) in hints.fields_of(hint).items()}
    return {name: kind for name, kind in types.items() if kind is not None}


def _arrow_type(hint: Any) -> Any:
    pa = import_module("pyarrow")
    hint = hints.bare(hint)
    if hint is datetime:
        return pa.timestamp("us", "UTC")
    if hint in _SCALARS:
        return getattr(pa, _SCALARS[hint])()
    arguments: Sequence[Any] = getattr(hint, "__args__", ())
    if hints.origin_of(hint) is list and len(arguments) == 1:
        inner = _arrow_type(arguments[0])
        return None if inner is None else pa.list_(inner)
    return None
