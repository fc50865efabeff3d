"""A file read in blocks of whole lines, resumable at any row, with a fingerprint of all that lies before it.

A position is `[start, line, end, digest, done]`: of the block at bytes `[start, end)`, whose first line has the number `line`,
`done` rows are done; `digest` is the hash of the file up to `end`. To resume, the file is read again up to `end` (a
compressed one is decompressed again), and the digest compared: a file that was rewritten is an error, and never rows that are
skipped or read twice. A file may grow. Bytes are those of the decompressed file.

Hashing costs 3 ns a row; a hash for each row would cost more than parsing it, so a block is marked, and its rows counted. Blocks
are cut at the last line end before each multiple of a size, which the file's beginning decides, so that they have about a
thousand rows: where they lie is a property of the file, and not of where reading began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import xxhash
from raystreams.cluster.connectors.base import BadRow, ColumnBatch, CountedPositions, Position
from raystreams.cluster.connectors.files import FileBytes
from raystreams.cluster.connectors.row_format import Columns
from raystreams.cluster.errors import SourceError

_ROWS = 1000
"""About how many rows a block should have."""

_SAMPLE = 1 << 14
_SMALLEST, _LARGEST = 1 << 14, 1 << 22
_LONGEST_LINE = 1 << 28


class LineReader:
    """Gives a file's lines in blocks. `line` and `offset` are those of what comes next."""

    def __init__(self, path: Path, position: Position | None) -> None:
        self.path = path
        self.offset, self.line = 0, 1
        self._file = FileBytes(path)
        self._hash = xxhash.xxh3_64()
        self._marked = (0, 1)
        self._rest = b""
        self._sample = b""
        self._taken = 0
        self.again: tuple[bytes, int] | None = None
        """After a resume: the block that was begun, and how many of its rows are done."""
        try:
            self._sample = self._read(_SAMPLE)
            self._taken = 0
            self._size = _size_of_blocks(self._sample)
            if position is not None:
                self._resume(*position)
        except BaseException:
            self.close()
            raise

    def _resume(self, start: int, line: int, end: int, digest: str, done: int) -> None:
        while self.offset < start:
            self._given(self._again(min(start - self.offset, _LARGEST)))
        self._marked = (start, line)
        block = self._given(self._again(end - start))
        self.line = line + block.count(b"\n")
        if self._hash.hexdigest() != digest:
            raise SourceError(
                f"{self.path} has been changed since it was read up to byte {end}. Put the old file back; or forget what "
                f"was read of it, with the job's state: `raystreams reset`"
            )
        self.again = (block, done)

    def _again(self, size: int) -> bytes:
        data = self._read(size)
        if len(data) < size:
            raise SourceError(
                f"{self.path} is shorter than what had been read of it. Put the old file back; or forget what was read of it, "
                f"with the job's state: `raystreams reset`"
            )
        return data

    def _read(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end of the file."""
        parts, self._sample = [self._sample[:size]], self._sample[size:]
        missing = size - len(parts[0])
        while missing and (part := self._file.read(missing)):
            parts.append(part)
            missing -= len(part)
        self._taken += size - missing
        return b"".join(parts)

    def _more(self) -> bytes:
        """Return the bytes up to the next multiple of the size of blocks."""
        return self._read(self._size - self._taken % self._size)

    def _given(self, data: bytes) -> bytes:
        self._hash.update(data)
        self.offset += len(data)
        return data

    def block(self) -> bytes:
        """Return the next whole lines; b"" at the end. The last line of a file may lack its newline."""
        data = self._with_line_end()
        return self._cut(data, data.rfind(b"\n") + 1)

    def one_line(self) -> bytes:
        """Return the next line alone; b"" at the end. The block after it ends where it would after a resume."""
        data = self._with_line_end()
        return self._cut(data, data.find(b"\n") + 1)

    def _with_line_end(self) -> bytes:
        """Take from the file until there is a line end, or no more."""
        parts, length = [self._rest], len(self._rest)
        while b"\n" not in parts[-1] and (more := self._more()):
            parts.append(more)
            length += len(more)
            if length > _LONGEST_LINE:
                size = f"{_LONGEST_LINE >> 20} MB"
                raise SourceError(f"{self.path}:{self.line}: the line is longer than {size}; is it a file of text?")
        return b"".join(parts)

    def _cut(self, data: bytes, end: int) -> bytes:
        end = end or len(data)
        self._rest = data[end:]
        return self._counted(data[:end])

    def _counted(self, data: bytes) -> bytes:
        self.line += data.count(b"\n")
        return self._given(data)

    def mark(self) -> list[Any]:
        """Return the position of what was given out since the last mark, without the count of rows done."""
        start, line = self._marked
        self._marked = (self.offset, self.line)
        return [start, line, self.offset, self._hash.hexdigest()]

    @property
    def first_line(self) -> int:
        """The number of the first line since the last mark."""
        return self._marked[1]

    @property
    def bytes_read(self) -> int:
        """How much of the file, as it lies on disk, has been used."""
        return self._file.raw_read

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> LineReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _size_of_blocks(beginning: bytes) -> int:
    """A power of two, so that a file has the same blocks when it has grown."""
    wanted = _ROWS * len(beginning) // max(1, beginning.count(b"\n"))
    return max(_SMALLEST, min(_LARGEST, 1 << max(0, wanted - 1).bit_length()))


@dataclass(frozen=True, slots=True)
class Parsed:
    """The rows of a block: columns of the good ones, and which rows those are; the bad ones as `(row, line, text, reason)`."""

    columns: Columns
    count: int
    good: Sequence[int]
    bad: Sequence[tuple[int, int, str, str]] = field(default=())


Parse = Callable[[LineReader, bytes], Parsed]
"""Parses a block, and takes further lines from the reader if its last row goes on in them."""


def read_batches(reader: LineReader, parse: Parse) -> Iterator[ColumnBatch]:
    """Yield the rows of a file from where its reader is, block by block."""
    block, done = reader.again or (reader.block(), 0)
    while block:
        parsed = parse(reader, block)
        batch = _batch(reader, parsed, done)
        if len(batch) or batch.bad:
            yield batch
        block, done = reader.block(), 0


def _batch(reader: LineReader, parsed: Parsed, done: int) -> ColumnBatch:
    """What of a block isn't done yet, each row with its position."""
    keys, values, timestamps = parsed.columns
    good = parsed.good
    mark = reader.mark()
    if done:
        skipped = sum(row < done for row in good)
        keys, values, timestamps, good = keys[skipped:], values[skipped:], timestamps[skipped:], good[skipped:]
    positions = range(good.start + 1, good.stop + 1) if isinstance(good, range) else [row + 1 for row in good]
    bad = [
        (sum(one < row for one in good), BadRow([*mark, row + 1], str(reader.path), line, text, reason))
        for row, line, text, reason in parsed.bad
        if row >= done
    ]
    return ColumnBatch(
        keys, values, timestamps, CountedPositions(mark, positions), None, bad, reader.bytes_read
    )
