"""JSON lines: one JSON object a line. Read from files that may be compressed (.gz, .zst); written one file a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
from raystreams.cluster.connectors.base import ColumnBatch, Position, RecordColumns, SinkBatch
from raystreams.cluster.connectors.file_source import FileSource
from raystreams.cluster.connectors.files import FilePath
from raystreams.cluster.connectors.line_reader import LineReader, Parsed, read_batches
from raystreams.cluster.connectors.part_file import PartFile, part_path
from raystreams.cluster.connectors.row_format import BAD, Columns, RowFormat, sorted_out
from raystreams.cluster.connectors.row_writer import RowColumns, are_objects, encode_hook
from raystreams.cluster.connectors.timestamps import RowError
from raystreams.cluster.errors import SinkError


@dataclass(frozen=True)
class JsonLinesSource(FileSource):
    """Rows from a file, a folder or a glob of JSON lines; see `RowSettings` for what makes key, time and value.

    Empty lines are passed over. What is no JSON, or doesn't fit the topic's type, is a bad row (`on_error`).
    """

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")

    def read(self, split: str, position: Position | None) -> Iterator[ColumnBatch]:
        """Yield a file's rows after a position."""
        parser = JsonLinesParser(self.format())
        with LineReader(self.file_of(split), position) as reader:
            yield from read_batches(reader, parser.parse)


class JsonLinesParser:
    """Decodes a block at once. Typed values are decoded straight into their class, and key and time beside it."""

    def __init__(self, row_format: RowFormat) -> None:
        self._format = row_format
        self._decode_rows = msgspec.json.Decoder().decode_lines
        self._decode_row = msgspec.json.Decoder().decode
        self._direct = _direct(row_format) if row_format.is_direct else None

    def parse(self, reader: LineReader, block: bytes) -> Parsed:
        """Return a block's rows; line by line where it isn't as it should be."""
        if reader.first_line == 1 and block.startswith(b"\xef\xbb\xbf"):
            block = block[3:]
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        try:
            columns = self._columns(block)
        except BAD:
            return self._each(reader, block)
        # An empty line, or two objects in one: rows are no longer lines, and must be counted the same way each time.
        return Parsed(columns, lines, range(lines)) if len(columns[0]) == lines else self._each(reader, block)

    def _columns(self, block: bytes) -> Columns:
        if self._direct is not None:
            return self._direct(block)
        return self._format.columns(self._decode_rows(block))

    def _each(self, reader: LineReader, block: bytes) -> Parsed:
        lines = [(n, line) for n, line in enumerate(block.split(b"\n"), reader.first_line) if line.strip()]
        columns, good, bad = sorted_out([line for _, line in lines], self._lines)
        bad_rows = [(row, *_text(*lines[row]), reason) for row, reason in bad]
        return Parsed(columns, len(lines), good, bad_rows)

    def _lines(self, lines: Sequence[bytes]) -> Columns:
        columns = self._columns(b"\n".join(lines))
        if len(columns[0]) != len(lines):
            for line in lines:
                self._decode_row(line)
            raise RowError("a JSON object stands over several lines, or several in one")
        return columns


def _text(number: int, line: bytes) -> tuple[int, str]:
    return number, line.decode(errors="replace").rstrip("\r")


def _direct(row_format: RowFormat) -> Callable[[bytes], Columns]:
    """Decode values into their type and the other columns into a Struct, each passing over what the other takes."""
    names = row_format.extra_columns
    fields = [f"c{i}" for i in range(len(names))]
    others = msgspec.defstruct("Columns", fields, rename=dict(zip(fields, names, strict=True)), gc=False)
    decode_values = msgspec.json.Decoder(row_format.value_hint).decode_lines
    decode_others = msgspec.json.Decoder(others).decode_lines
    field_of = dict(zip(names, fields, strict=True))
    key_fields = [field_of[name] for name in row_format.key_columns]
    time_fields = [field_of[name] for name in (row_format.time_column,) if name is not None]

    def decode(block: bytes) -> Columns:
        values = decode_values(block)
        rows: Sequence[Any] = decode_others(block) if names else values
        keys = [[getattr(row, name) for row in rows] for name in key_fields]
        times = [getattr(row, name) for name in time_fields for row in rows]
        return row_format.keys(keys, len(rows)), values, row_format.times(times, len(rows))

    return decode


@dataclass(frozen=True)
class JsonLinesSink:
    """Writes values as objects into `path/part-00000.jsonl`, a file a partition; see `row_writer` for `key` and `timestamp`.

    What is there of an earlier job is replaced. `fsync`: what is written survives a power cut, too.
    """

    path: FilePath
    key: str | Sequence[str] | None = field(default=None, kw_only=True)
    timestamp: str | None = field(default=None, kw_only=True)
    fsync: bool = field(default=False, kw_only=True)

    def open(self, partition: int, position: Position | None) -> JsonLinesWriter:
        """Cut a partition's file to what is committed and go on from there."""
        file = PartFile(part_path(self.path, partition, ".jsonl"), position, fsync=self.fsync)
        return JsonLinesWriter(file, RowColumns(self.key, self.timestamp))


class JsonLinesWriter:
    """Writes a partition's records, a line each."""

    def __init__(self, file: PartFile, columns: RowColumns) -> None:
        self._file, self._columns = file, columns
        self._encode = msgspec.json.Encoder(enc_hook=encode_hook).encode_lines

    def write(self, batch: SinkBatch[Any, Any]) -> Position:
        """Write a batch; return the file's name and length after it."""
        records = RecordColumns.of(batch.records)
        rows: Sequence[Any] = records.values
        if self._columns.adds or not are_objects(rows):
            rows = list(map(self._columns.row, records.keys, records.values, records.timestamps))
        try:
            data = self._encode(rows)
        except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
            raise SinkError(f"{self._file.path}: a value of batch {batch.id} can't be written as JSON: {error}") from error
        return self._file.write(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
