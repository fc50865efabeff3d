"""Rows of Parquet files. Only the columns that are used are read; a resumed file starts at the row group it stopped in.

A position is `[size, digest, done]`: the file's size, the hash of its footer, and how many rows are done. The footer has the
place, length and statistics of each column chunk: a rewritten file has another one, and nothing else need be read to know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import xxhash
from raystreams.cluster.connectors.arrow import python_rows, require_pyarrow
from raystreams.cluster.connectors.base import ColumnBatch, Position
from raystreams.cluster.connectors.file_source import FileSource
from raystreams.cluster.connectors.rows import batch_of
from raystreams.cluster.errors import SourceError

if TYPE_CHECKING:
    import pyarrow.parquet

_BATCH = 1000


@dataclass(frozen=True)
class ParquetSource(FileSource):
    """Rows from a file, a folder or a glob of Parquet; see `RowSettings` for what makes key, time and value. Needs pyarrow."""

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_pyarrow("Parquet")

    def read(self, split: str, position: Position | None) -> Iterator[ColumnBatch]:
        """Yield a file's rows after a position."""
        path = self.file_of(split)
        row_format = self.format()
        with _opened(path) as file:
            size, digest = path.stat().st_size, _digest(path)
            done = 0
            if position is not None:
                if position[:2] != [size, digest]:
                    raise SourceError(
                        f"{path} has been changed since it was read. Put the old file back; or forget what was read of it, with "
                        f"the job's state: `raystreams reset`"
                    )
                done = position[2]
            names = [field.name for field in file.schema_arrow]
            used = row_format.used(names, path)
            total = max(1, file.metadata.num_rows)
            for rows in _rows(file, path, [name for name in names if name in used], done):
                batch = batch_of(rows, row_format, done, str(path), [size, digest])
                done += len(rows)
                yield msgspec.structs.replace(batch, bytes_read=size * done // total)


def _opened(path: Path) -> pyarrow.parquet.ParquetFile:
    pq, pa = import_module("pyarrow.parquet"), import_module("pyarrow")
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"{path} can't be read as Parquet: {error}") from error


def _rows(
    file: pyarrow.parquet.ParquetFile, path: Path, columns: Sequence[str], done: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows after the first `done`, some at a time."""
    pa = import_module("pyarrow")
    groups: list[int] = []
    before = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if before + rows <= done and not groups:
            before += rows
        else:
            groups.append(group)
    skip = done - before
    try:
        for batch in file.iter_batches(_BATCH, row_groups=groups, columns=list(columns)) if groups else ():
            if skip >= len(batch):
                skip -= len(batch)
                continue
            yield python_rows(batch.slice(skip))
            skip = 0
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path} can't be read to its end, it is damaged: {error}") from error


def _digest(path: Path) -> str:
    """The hash of the footer: the file's last bytes are its length (4) and PAR1."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, 2)
        return xxhash.xxh3_64(file.read(length)).hexdigest()
