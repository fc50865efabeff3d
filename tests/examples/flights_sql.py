"""The flights job said again in SQL, from the same files, by DuckDB: what its output must be, as multisets of rows.

Times are compared as seconds since the epoch and days as ISO text, so that neither side's calendar types matter.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

FLIGHT_COLUMNS = (
    "carrier", "flight", "origin", "dest", "tailnum", "time_hour", "dep_delay", "airline", "manufacturer", "model",
    "temp", "wind_speed", "precip", "visib", "weather_time",
)  # fmt: skip
DELAY_COLUMNS = ("carrier", "day", "flights", "cancelled", "mean_dep_delay", "worst_dep_delay", "in_rain")
Row = tuple[Any, ...]

_TABLES = """
create table departures as select * from read_csv('{data}/flights/*.csv.gz', nullstr = 'NA', types = {{
    'time_hour': 'TIMESTAMP', 'dep_delay': 'BIGINT', 'flight': 'BIGINT', 'tailnum': 'VARCHAR'}});
create table weather as select * from read_csv('{data}/weather/*.csv.gz', nullstr = 'NA', types = {{
    'time_hour': 'TIMESTAMP', 'temp': 'DOUBLE', 'wind_speed': 'DOUBLE', 'precip': 'DOUBLE', 'visib': 'DOUBLE'}});
create table planes as select * from read_csv('{data}/planes.csv.gz', nullstr = 'NA');
create table airlines as select * from read_csv('{data}/airlines.csv.gz');
create table flights as
    select d.carrier, d.flight, d.origin, d.dest, d.tailnum, epoch(d.time_hour)::BIGINT as time_hour, d.dep_delay,
           a.name as airline, p.manufacturer, p.model, w.temp, w.wind_speed, w.precip, w.visib,
           epoch(w.time_hour)::BIGINT as weather_time, d.time_hour::DATE::VARCHAR as day
    from departures d
    asof left join weather w on d.origin = w.origin and d.time_hour >= w.time_hour
    left join planes p on d.tailnum = p.tailnum
    left join airlines a on d.carrier = a.carrier;
"""
_DELAYS = """
select carrier, day, count(*), count(*) filter (dep_delay is null), avg(dep_delay), max(dep_delay),
       count(*) filter (precip > 0)
from flights group by carrier, day
"""


class Expected:
    """The two outputs, computed from the data in a folder laid out as examples/flights/data."""

    def __init__(self, data: Path) -> None:
        with duckdb.connect() as database:
            database.execute(_TABLES.format(data=data))
            rows = database.execute(f"select {', '.join(FLIGHT_COLUMNS)} from flights").fetchall()
            self.flights = Counter(rows)
            self.delays = Counter(database.execute(_DELAYS).fetchall())


def flights(out: Path) -> Counter[Row]:
    """Return the rows of the `flights` sink; a row with other columns than those asked for is an error."""
    return Counter(_row(row, FLIGHT_COLUMNS, ("time_hour", "weather_time")) for row in _lines(out / "flights"))


def delays(out: Path) -> Counter[Row]:
    """Return the rows of the `delays` sink."""
    return Counter(_row(row, DELAY_COLUMNS, ()) for row in _lines(out / "delays"))


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.iterdir()):
        with path.open() as file:
            yield from map(json.loads, file)


def _row(row: dict[str, Any], columns: tuple[str, ...], times: tuple[str, ...]) -> Row:
    if tuple(row) != columns:
        raise AssertionError(f"expected the columns {columns}, got {tuple(row)}")
    for column in times:
        if row[column] is not None:
            # Python 3.10 doesn't read the Z.
            row[column] = int(datetime.fromisoformat(row[column].replace("Z", "+00:00")).timestamp())
    return tuple(row.values())
