"""Values written as Parquet: a file a batch, `part-00000-0000000012.parquet`, of partition 0 and its 12th batch.

A Parquet file ends with its footer and can't be continued, so what is committed is a set of whole files. A position is
`{"path": name, "sequence": n}`: files up to n are committed. Opening removes those after it; a batch that comes again replaces
its file by the same one. A file appears under its name only when it is whole.

Batches are as large as commits, some ten thousand records; merging files is left to whoever reads them often.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from raystreams.cluster.connectors.arrow import as_table, require_pyarrow
from raystreams.cluster.connectors.base import Position, RecordColumns, SinkBatch
from raystreams.cluster.connectors.files import FilePath
from raystreams.cluster.connectors.part_file import part_path
from raystreams.cluster.connectors.row_writer import RowColumns
from raystreams.cluster.errors import SinkError
from raystreams.operators.options import Topic


@dataclass(frozen=True)
class ParquetSink:
    """Writes values' fields into Parquet files below `path`; see `row_writer` for `key` and `timestamp`. Needs pyarrow.

    The types of columns are those of the topic's class, where it says them.
    """

    path: FilePath
    key: str | Sequence[str] | None = field(default=None, kw_only=True)
    timestamp: str | None = field(default=None, kw_only=True)
    compression: str = field(default="zstd", kw_only=True)
    fsync: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        require_pyarrow("Parquet")

    def for_topic(self, topic: Topic[Any, Any]) -> ParquetSink:
        """Return this sink, writing columns of the topic's types."""
        bound = copy.copy(self)
        object.__setattr__(bound, "_value", getattr(topic.value, "hint", topic.value))
        return bound

    def open(self, partition: int, position: Position | None) -> ParquetWriter:
        """Remove a partition's files that are not committed and go on after the others."""
        return ParquetWriter(self, partition, 0 if position is None else position["sequence"])


class ParquetWriter:
    """Writes a partition's batches, each into a file."""

    def __init__(self, sink: ParquetSink, partition: int, committed: int) -> None:
        self._sink, self._columns = sink, RowColumns(sink.key, sink.timestamp)
        self._hint = getattr(sink, "_value", None)
        self._first = part_path(sink.path, partition, "")
        folder = self._first.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob(f"{self._first.name}-*.parquet*"):
                if path.name.endswith(".tmp") or int(path.stem.rpartition("-")[2]) > committed:
                    path.unlink()
        except OSError as error:
            raise SinkError(f"{folder} can't be written: {error.strerror or error}") from error

    def write(self, batch: SinkBatch[Any, Any]) -> Position:
        """Write a batch; return its file's name and number."""
        path = self._first.with_name(f"{self._first.name}-{batch.sequence:010}.parquet")
        if batch.records:
            self._write(path, batch)
        return {"path": path.name, "sequence": batch.sequence}

    def _write(self, path: Path, batch: SinkBatch[Any, Any]) -> None:
        pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
        records = RecordColumns.of(batch.records)
        rows = list(map(self._columns.row, records.keys, records.values, records.timestamps))
        unfinished = path.with_name(f"{path.name}.tmp")
        try:
            times = [self._sink.timestamp] if self._sink.timestamp is not None else []
            pq.write_table(as_table(rows, self._hint, times), unfinished, compression=self._sink.compression)
            if self._sink.fsync:
                with unfinished.open("rb+") as file:
                    os.fsync(file.fileno())
            unfinished.replace(path)
        except OSError as error:
            raise SinkError(f"{path} can't be written: {error}. What is committed is safe: make room and start again") from error
        except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError) as error:
            raise SinkError(f"{path}: a value of batch {batch.id} can't be written as Parquet: {error}") from error

    def close(self) -> None:
        """Files are whole already."""
