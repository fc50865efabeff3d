"""What the tests of sources share."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import zstandard
from raystreams.cluster.connectors.base import BadRow, Position, Source, SourceRecord, Wait
from raystreams.cluster.connectors.conformance import records_of


@dataclass(frozen=True)
class Order:
    id: int
    item: str
    price: float | None = None
    at: datetime | None = None


def rows_of(
    source: Source[Any, Any], split: str | None = None, position: Position = None
) -> Iterator[SourceRecord[Any, Any] | BadRow]:
    """Yield all records and bad rows of a split (the only one)."""
    if split is None:
        (split,) = source.splits()
    for batch in source.read(split, position):
        assert not isinstance(batch, Wait)
        yield from records_of(batch)


def triples(source: Source[Any, Any], split: str | None = None) -> list[tuple[Any, Any, Any]]:
    """Return (key, value, timestamp) of all records of a split; a bad row is an AssertionError."""
    found = []
    for row in rows_of(source, split):
        assert isinstance(row, SourceRecord), row
        found.append((row.key, row.value, row.timestamp))
    return found


def values(source: Source[Any, Any], split: str | None = None) -> list[Any]:
    """Return the values of all records of a split."""
    return [value for _, value, _ in triples(source, split)]


def write(path: Path, text: str | bytes) -> Path:
    """Write a file, compressed as its name says."""
    data = text.encode() if isinstance(text, str) else text
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = zstandard.ZstdCompressor().compress(data)
    path.write_bytes(data)
    return path
