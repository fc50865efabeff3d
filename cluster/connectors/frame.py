"""Rows of a data frame: pandas, polars, Arrow, or anything else that exports Arrow data (`__arrow_c_stream__`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from raystreams.cluster.connectors.arrow import batches_of, require_pyarrow, table_of
from raystreams.cluster.connectors.base import ColumnBatch, Position
from raystreams.cluster.connectors.row_format import RowSettings
from raystreams.cluster.connectors.rows import batch_of

_BATCH = 1000


@dataclass(frozen=True, eq=False)
class FrameSource(RowSettings):
    """Rows of a data frame; see `RowSettings` for what makes key, time and value. Needs pyarrow.

    A stream, which gives its rows once, is read to its end at once.
    """

    frame: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        require_pyarrow("FrameSource")
        if hasattr(self.frame, "read_next_batch"):
            object.__setattr__(self, "frame", table_of(self.frame))
        elif not hasattr(self.frame, "__arrow_c_stream__") and not hasattr(self.frame, "iloc"):
            raise TypeError(f"frame: a {type(self.frame).__name__} gives no Arrow data (it has no __arrow_c_stream__)")

    def splits(self) -> Sequence[str]:
        """Return the one split."""
        return ["frame"]

    def read(self, split: str, position: Position | None) -> Iterator[ColumnBatch]:
        """Yield the rows after a position."""
        row_format = self.format()
        table = table_of(self.frame)
        used = row_format.used(table.column_names, "the frame")
        table = table.select([name for name in table.column_names if name in used])
        done = position or 0
        for rows in batches_of(table, done, _BATCH):
            yield batch_of(rows, row_format, done, "frame")
            done += len(rows)
