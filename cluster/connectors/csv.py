"""CSV: rows of text, which the topic's type turns into numbers, times and so on; files may be compressed (.gz, .zst).

The first row names the columns, unless `columns` does. A field that equals one of `null` is None; an empty one stays an empty
text where the type says `str` without None. Columns that a class has no field for are passed over.

A block is parsed at once where each row is a line. Quoted fields may hold line ends, also at the end of a block: then the row
takes further lines from the reader. After a malformed row, parsing goes on with the line behind its first one: a quote
that is never closed costs one row, not the rest of the file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from raystreams.cluster.connectors.base import ColumnBatch, Position
from raystreams.cluster.connectors.file_source import FileSource
from raystreams.cluster.connectors.line_reader import LineReader, Parsed, read_batches
from raystreams.cluster.connectors.row_format import BAD, RowFormat
from raystreams.cluster.errors import ConfigError

Fields = list[str]


@dataclass(frozen=True, kw_only=True)
class CsvSource(FileSource):
    """Rows from a file, a folder or a glob of CSV; see `RowSettings` for what makes key, time and value."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".txt")

    null: Sequence[str] = ("",)
    delimiter: str | None = None
    """A comma; in .tsv files a tab."""
    quote: str = '"'
    columns: Sequence[str] | None = None
    """The names of the columns, of files that don't begin with them."""
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            newline = "\n".encode(self.encoding)
        except LookupError as error:
            raise ValueError(f"encoding: Python knows none by the name of {self.encoding!r}") from error
        if newline != b"\n":
            raise ValueError(f"encoding: lines of {self.encoding} can't be found by their bytes; convert the file to utf-8")
        if isinstance(self.null, str):
            raise ValueError(f"null: give a list of markers, [{self.null!r}]")
        for what, sign in (("delimiter", self.delimiter), ("quote", self.quote)):
            if sign is not None and len(sign) != 1:
                raise ValueError(f"{what}: give one character, not {sign!r}")

    def read(self, split: str, position: Position | None) -> Iterator[ColumnBatch]:
        """Yield a file's rows after a position."""
        path = self.file_of(split)
        with LineReader(path, position) as reader:
            names = self._header(path, reader if position is None else None)
            if names:
                parser = CsvParser(self, path, names)
                yield from read_batches(reader, parser.parse)

    def dialect(self, path: Path) -> dict[str, Any]:
        """Return how csv.reader is to take a file."""
        delimiter = self.delimiter or ("\t" if ".tsv" in path.suffixes else ",")
        return {"delimiter": delimiter, "quotechar": self.quote, "strict": True}

    def _header(self, path: Path, reader: LineReader | None) -> list[str]:
        """Read the names of the columns; with the reader of the rows if that is at the beginning."""
        if self.columns is not None:
            return list(self.columns)
        if reader is None:
            with LineReader(path, None) as beginning:
                return self._header(path, beginning)
        lines = (line.decode(self.encoding) for line in iter(reader.one_line, b""))
        try:
            names = next((row for row in csv.reader(lines, **self.dialect(path)) if row), [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: the first row doesn't name columns: {error}") from error
        reader.mark()
        if names:
            names[0] = names[0].removeprefix("\ufeff")
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ConfigError(f"{path}: two columns have the name {min(doubled)!r}; name them all with columns=[...]")
        return names


class CsvParser:
    """Parses blocks of one file, whose columns are known."""

    def __init__(self, source: CsvSource, path: Path, names: Sequence[str]) -> None:
        self._names, self._dialect, self._encoding = names, source.dialect(path), source.encoding
        self._format = source.format(text=True)
        self._null = frozenset(source.null)
        used = self._format.used(names, path)
        self._taken = [(index, name) for index, name in enumerate(names) if name in used]
        keeps_empty = _texts(self._format)
        self._nulls = {name: self._null - {""} if name in keeps_empty else self._null for _, name in self._taken}

    def parse(self, reader: LineReader, block: bytes) -> Parsed:
        """Return a block's rows."""
        try:
            text = block.decode(self._encoding)
            rows = list(csv.reader(io.StringIO(text, newline="\n"), **self._dialect))
        except (csv.Error, UnicodeDecodeError):
            return self._line_by_line(reader, block)
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        if len(rows) != lines or set(map(len, rows)) != {len(self._names)}:
            return self._line_by_line(reader, block)
        return self._converted(rows, range(reader.first_line, reader.first_line + lines), block, reader)

    def _converted(self, rows: list[Fields], numbers: Sequence[int], block: bytes, reader: LineReader) -> Parsed:
        """Make records of rows that are well-formed; `numbers` are those of their lines."""
        dicts = self._dicts(rows)
        try:
            return Parsed(self._format.columns(dicts), len(rows), range(len(rows)))
        except BAD:
            columns, good, bad = self._format.each(dicts)
        texts = [(row, numbers[row], self._text(rows[row]), reason) for row, reason in bad]
        return Parsed(columns, len(rows), good, texts)

    def _dicts(self, rows: list[Fields]) -> list[dict[str, Any]]:
        if not rows:
            return []
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        taken: list[Sequence[Any]] = []
        for index, name in self._taken:
            nulls, column = self._nulls[name], columns[index]
            taken.append(column if nulls.isdisjoint(column) else [None if cell in nulls else cell for cell in column])
        names = [name for _, name in self._taken]
        return [dict(zip(names, cells, strict=True)) for cells in zip(*taken, strict=True)] if names else [{}] * len(rows)

    def _text(self, row: Fields) -> str:
        out = io.StringIO()
        csv.writer(out, delimiter=self._dialect["delimiter"], quotechar=self._dialect["quotechar"]).writerow(row)
        return out.getvalue().rstrip("\r\n")

    def _line_by_line(self, reader: LineReader, block: bytes) -> Parsed:
        """Parse a block with rows of several lines, empty lines, or malformed rows."""
        lines = _Lines(reader, block)
        rows: list[Fields] = []
        numbers: list[int] = []
        places: list[int] = []
        bad: list[tuple[int, int, str, str]] = []
        count, width = 0, len(self._names)
        parsing = self._parsing(lines)
        while lines.more:
            first = lines.next
            try:
                row = next(parsing)
            except (csv.Error, UnicodeDecodeError) as error:
                lines.next, parsing = first + 1, self._parsing(lines)
                row, reason = None, f"it is no CSV ({error})"
            else:
                if not row:
                    continue
                reason = f"it has {len(row)} fields, and there are {width} columns"
            if row is not None and len(row) == width:
                rows.append(row)
                numbers.append(reader.first_line + first)
                places.append(count)
            else:
                text = b"".join(lines.all[first : lines.next]).decode(self._encoding, errors="replace")
                bad.append((count, reader.first_line + first, text.rstrip("\r\n"), reason))
            count += 1
        converted = self._converted(rows, numbers, block, reader)
        bad += [(places[row], number, text, reason) for row, number, text, reason in converted.bad]
        return Parsed(converted.columns, count, [places[row] for row in converted.good], sorted(bad))

    def _parsing(self, lines: Iterator[bytes]) -> Iterator[Fields]:
        return csv.reader((line.decode(self._encoding) for line in lines), **self._dialect)


class _Lines(Iterator[bytes]):
    """The lines of a block, and those after it when a row asks for them."""

    def __init__(self, reader: LineReader, block: bytes) -> None:
        self._reader = reader
        self.all = [line + b"\n" for line in block.split(b"\n")]
        last = self.all.pop()[:-1]
        self.all += [last] if last else []
        self.next = 0

    @property
    def more(self) -> bool:
        """Whether the block has lines that no row has taken."""
        return self.next < len(self.all)

    def __next__(self) -> bytes:
        if not self.more:
            line = self._reader.one_line()
            if not line:
                raise StopIteration
            self.all.append(line)
        self.next += 1
        return self.all[self.next - 1]


def _texts(row_format: RowFormat) -> set[str]:
    """The columns where an empty field is an empty text, and not null."""
    return {name for name, (hint, _) in (row_format.fields() or {}).items() if hint is str}
