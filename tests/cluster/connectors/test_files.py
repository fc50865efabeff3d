"""Which files a path means, and what happens when they are damaged, gone or rewritten."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
import zstandard
from raystreams.cluster.connectors.jsonl import JsonLinesSource
from raystreams.cluster.errors import ConfigError, SourceError

from tests.cluster.connectors.reading import rows_of, values, write

LINE = '{"n":1}\n'


def splits(path: Path | str) -> list[str]:
    return list(JsonLinesSource(path).splits())


def test_a_file_is_one_split_of_its_name(tmp_path: Path) -> None:
    assert splits(write(tmp_path / "a.data", LINE)) == ["a.data"]


def test_a_folder_is_a_split_for_each_file_of_the_kind_below_it(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl.gz", "sub/c.json.zst", "d.ndjson", "notes.txt", ".e.jsonl", "_tmp/f.jsonl"):
        write(tmp_path / name, LINE)

    assert splits(tmp_path) == ["a.jsonl.gz", "b.jsonl", "d.ndjson", "sub/c.json.zst"]


def test_a_glob_is_a_split_for_each_match_named_from_its_fixed_part(tmp_path: Path) -> None:
    for name in ("x/1/a.log", "x/2/a.log", "x/2/b.txt"):
        write(tmp_path / name, LINE)

    assert splits(f"{tmp_path}/x/*/*.log") == ["1/a.log", "2/a.log"]
    assert splits(f"{tmp_path}/**/a.log") == ["x/1/a.log", "x/2/a.log"]


def test_ids_of_splits_do_not_change_when_data_moves(tmp_path: Path) -> None:
    write(tmp_path / "one" / "a.jsonl", LINE)
    before = splits(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "two")

    assert splits(tmp_path / "two") == before


def test_a_missing_file_is_an_error_with_the_right_name(tmp_path: Path) -> None:
    write(tmp_path / "flights.jsonl", LINE)

    with pytest.raises(ConfigError, match=r"there is no file or folder '.*/fligths.jsonl'; did you mean 'flights.jsonl'\?"):
        splits(tmp_path / "fligths.jsonl")
    with pytest.raises(ConfigError, match=r"nor a folder '.*/data'"):
        splits(tmp_path / "data" / "flights.jsonl")


def test_a_folder_or_glob_without_files_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "a\n1\n")

    with pytest.raises(ConfigError, match=r"the folder '.*' has no files that end in .jsonl, .jsonl.gz"):
        splits(tmp_path)
    with pytest.raises(ConfigError, match=r"no file matches '.*/\*.log'"):
        splits(f"{tmp_path}/*.log")


def test_a_url_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"'s3://lake/a\.jsonl' is a URL"):
        splits("s3://lake/a.jsonl")


def cut_off(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl.gz", cut_off(gzip.compress(LINE.encode() * 9999))),
        ("a.jsonl.zst", cut_off(zstandard.ZstdCompressor().compress(bytes(range(256)) * 9999))),
        ("a.jsonl.gz", b"no gzip at all"),
        ("a.jsonl.zst", b"no zstandard at all"),
    ],
)
def test_a_compressed_file_that_is_damaged_or_cut_off_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)

    with pytest.raises(SourceError, match=re.escape(f"{tmp_path / name} can't be read to its end, it is damaged or cut off")):
        list(rows_of(JsonLinesSource(tmp_path / name)))


def test_compressed_files_may_have_several_parts(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(LINE.encode()) * 3)
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(LINE.encode()) * 3)

    assert values(JsonLinesSource(tmp_path), "a.jsonl.gz") == [{"n": 1}] * 3
    assert values(JsonLinesSource(tmp_path), "b.jsonl.zst") == [{"n": 1}] * 3


class Interrupted:
    """A file of 5,000 rows, read up to its row 2,000; the position of that row survives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = [f'{{"n":{n:04}1}}'.replace(":0", ":") if n % 2 else f'{{"n":{n}}}' for n in range(5000)]
        self.write(self.lines)
        self.source = JsonLinesSource(path)
        self.position: Any = [row.position for row in rows_of(self.source)][1999]

    def write(self, lines: list[str]) -> None:
        write(self.path, "\n".join(lines) + "\n")

    def rest(self) -> list[Any]:
        return list(rows_of(self.source, position=self.position))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
class TestAFileBetweenTwoRuns:
    def test_may_grow(self, tmp_path: Path, name: str) -> None:
        read = Interrupted(tmp_path / name)
        read.write([*read.lines, '{"n":"new"}'])

        assert len(read.rest()) == 3001

    @pytest.mark.parametrize("row", [0, 1000, 1999])
    def test_may_not_change_before_its_position(self, tmp_path: Path, name: str, row: int) -> None:
        read = Interrupted(tmp_path / name)
        read.write([*read.lines[:row], read.lines[row].replace("n", "m"), *read.lines[row + 1 :]])

        with pytest.raises(SourceError, match=re.escape(f"{read.path} has been changed since it was read up to byte")):
            read.rest()

    def test_may_not_shrink_before_its_position(self, tmp_path: Path, name: str) -> None:
        read = Interrupted(tmp_path / name)
        read.write(read.lines[:1000])

        with pytest.raises(SourceError, match=re.escape(f"{read.path} is shorter than what had been read of it")):
            read.rest()

    def test_may_not_be_gone(self, tmp_path: Path, name: str) -> None:
        read = Interrupted(tmp_path / name)
        read.path.unlink()

        with pytest.raises(ConfigError, match="there is no file or folder"):
            read.rest()


def test_a_file_of_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", LINE)
    source = JsonLinesSource(tmp_path)

    with pytest.raises(SourceError, match=r"the file 'b.jsonl' is no longer in '.*', and was not read to its end"):
        list(rows_of(source, "b.jsonl", [0, 1, 8, "x", 1]))
