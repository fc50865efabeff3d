"""Values written as CSV, one file a partition; the first row names the columns.

The columns are those of `columns`, or else of the first row written. A later row that lacks one has an empty field there;
one that has more is an error, since it would be lost. None is `null`, and text that equals it can't be told from it. Times
are ISO 8601; lists and objects are JSON.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from raystreams.cluster.connectors.base import Position, RecordColumns, SinkBatch
from raystreams.cluster.connectors.files import FilePath
from raystreams.cluster.connectors.part_file import PartFile, part_path
from raystreams.cluster.connectors.row_writer import RowColumns, encode_hook
from raystreams.cluster.errors import SinkError

_HEADER = 1 << 20


@dataclass(frozen=True)
class CsvSink:
    """Writes values' fields into `path/part-00000.csv`, a file a partition; see `row_writer` for `key` and `timestamp`."""

    path: FilePath
    key: str | Sequence[str] | None = field(default=None, kw_only=True)
    timestamp: str | None = field(default=None, kw_only=True)
    columns: Sequence[str] | None = field(default=None, kw_only=True)
    null: str = field(default="", kw_only=True)
    delimiter: str = field(default=",", kw_only=True)
    fsync: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1:
            raise ValueError(f"delimiter: give one character, not {self.delimiter!r}")

    def open(self, partition: int, position: Position | None) -> CsvWriter:
        """Cut a partition's file to what is committed and go on from there."""
        return CsvWriter(self, PartFile(part_path(self.path, partition, ".csv"), position, fsync=self.fsync))


class CsvWriter:
    """Writes a partition's records, a row each."""

    def __init__(self, sink: CsvSink, file: PartFile) -> None:
        self._sink, self._file = sink, file
        self._columns = RowColumns(sink.key, sink.timestamp)
        self._names: list[str] | None = None
        if file.length:
            text = file.beginning(_HEADER).decode()
            self._names = next(csv.reader(io.StringIO(text, newline=""), delimiter=sink.delimiter))

    def write(self, batch: SinkBatch[Any, Any]) -> Position:
        """Write a batch; return the file's name and length after it."""
        if not batch.records:
            return self._file.position
        records = RecordColumns.of(batch.records)
        rows = list(map(self._columns.row, records.keys, records.values, records.timestamps))
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=self._sink.delimiter, lineterminator="\n")
        names = self._names
        if names is None:
            names = list(self._sink.columns or rows[0])
            writer.writerow(names)
        known = set(names)
        for row in rows:
            if not known.issuperset(row):
                more = ", ".join(map(repr, sorted(row.keys() - known)))
                raise SinkError(
                    f"{self._file.path}: a row has a field {more}, and the file's columns are {', '.join(names)}. "
                    f"Name all columns with the sink's columns=[...]"
                )
            writer.writerow([self._cell(row.get(name)) for name in names])
        position = self._file.write(out.getvalue().encode())
        self._names = names
        return position

    def _cell(self, cell: Any) -> str | int | float:
        if cell is None:
            return self._sink.null
        if cell.__class__ in (str, int, float):
            return cell
        if cell.__class__ is bool:
            return "true" if cell else "false"
        try:
            plain = msgspec.to_builtins(cell, str_keys=True, enc_hook=encode_hook)
            return plain if isinstance(plain, (str, int, float)) else msgspec.json.encode(plain).decode()
        except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
            raise SinkError(f"{self._file.path}: {cell!r} can't be written as CSV: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()
