"""Rows of this process: any iterable of dicts, or of objects of the topic's own class. For tests, notebooks and small tables.

A position is the number of rows done, so `rows` must give the same rows each time. An iterator, which gives them once, is
read to its end at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from raystreams.cluster.connectors.base import BadRow, ColumnBatch, CountedPositions, Position
from raystreams.cluster.connectors.row_format import BAD, RowFormat, RowSettings

_BATCH = 1000


@dataclass(frozen=True)
class Rows(RowSettings):
    """Rows from an iterable; see `RowSettings` for what makes key, time and value."""

    rows: Iterable[Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rows, (str, bytes, Mapping)):
            raise TypeError(f"rows: give an iterable of rows, not a {type(self.rows).__name__}")
        if isinstance(self.rows, Iterator):
            object.__setattr__(self, "rows", list(self.rows))

    def splits(self) -> Sequence[str]:
        """Return the one split."""
        return ["rows"]

    def read(self, split: str, position: Position | None) -> Iterator[ColumnBatch]:
        """Yield the rows after a position."""
        row_format = self.format()
        done = position or 0
        rows = iter(self.rows)
        for _ in islice(rows, done):
            pass
        while batch := list(islice(rows, _BATCH)):
            # A user's function may change the value that it gets; the row must be the same when it is read again.
            copies = [dict(row) if isinstance(row, Mapping) else row for row in batch]
            yield batch_of(copies, row_format, done, "rows")
            done += len(batch)


def batch_of(
    rows: Sequence[Any], row_format: RowFormat, done: int, where: str, mark: Sequence[Any] | None = None
) -> ColumnBatch:
    """Make records of rows, which `done` come before. Their positions are their numbers, or `[*mark, number]`."""

    def positions(numbers: Sequence[int]) -> Sequence[Position]:
        return numbers if mark is None else CountedPositions(mark, numbers)

    try:
        keys, values, timestamps = row_format.columns(rows)
    except BAD:
        (keys, values, timestamps), good, bad = row_format.each(rows)
    else:
        return ColumnBatch(keys, values, timestamps, positions(range(done + 1, done + len(rows) + 1)))
    bad_rows = []
    for row, reason in bad:
        number = done + row + 1
        place = positions([number])[0]
        bad_rows.append((sum(one < row for one in good), BadRow(place, where, number, repr(rows[row]), reason)))
    return ColumnBatch(keys, values, timestamps, positions([done + row + 1 for row in good]), bad=bad_rows)
