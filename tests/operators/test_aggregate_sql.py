"""Aggregations against SQL: whatever the order of records within grace, partitions and crashes, the last rows are SQL's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import (
    EmitStrategy,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
)
from tests.operators.runtime_vectors import grouped, topology

Row = tuple[str, int, int]
"""Key, value, time."""

GRACE = 1000
"""Longer than any disorder here: no record is late."""

RECORDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 9), st.integers(0, 100)), max_size=40)

Table = dict[tuple[str, int, int], Any]


def count_and_sum(windows: Any, how: str) -> Topology:
    """[number, sum] of the values of each key and window; all results, on close, or suppressed."""

    def added(key: str, value: int, aggregate: list[int]) -> list[int]:
        aggregate[0] += 1
        aggregate[1] += value
        return aggregate

    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        windowed: Any = grouped(builder).windowed_by(windows)
        if how == "close":
            windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
        mergers = [lambda key, a, b: [a[0] + b[0], a[1] + b[1]]] if isinstance(windows, SessionWindows) else []
        table: KTable[Any, Any] = windowed.aggregate(lambda: [0, 0], added, *mergers)
        return table.suppress(Suppressed.until_window_closes()) if how == "suppress" else table

    return topology(shape)


def last_rows(described: Topology, records: Iterable[Row], partitions: int, crash_every: int = 0) -> Table:
    """The table that the outputs make."""
    with TopologyTestDriver(described, partitions=partitions, auto_commit=not crash_every) as driver:
        for number, (key, value, time) in enumerate(records):
            driver.input_topic("in").send(value, key=key, timestamp=time)
            if crash_every and number % crash_every == 0:
                driver.commit()
                driver.crash()
            elif crash_every and number % 3 == 0:
                driver.crash()
        driver.end_of_input()
        driver.commit()
        rows: dict[Windowed[str], Any] = driver.output_topic("out").read_table()
    return {(key.key, key.start, key.end): value for key, value in rows.items()}


def in_sql(query: str, records: Iterable[Row], **parameters: int) -> Table:
    """A query over `r(k, v, t)` that gives key, start, end, number and sum."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("create table r (k text, v integer, t integer)")
        database.executemany("insert into r values (?, ?, ?)", records)
        return {(k, start, end): [n, total] for k, start, end, n, total in database.execute(query, parameters)}


TUMBLING = "select k, t / :size * :size, t / :size * :size + :size, count(*), sum(v) from r group by 1, 2"

HOPPING = """
    with recursive starts(s) as (select 0 union all select s + :advance from starts where s < 100)
    select k, s, s + :size, count(*), sum(v) from r join starts on t >= s and t < s + :size group by 1, 2
"""

SESSIONS = """
    with marked as (
        select *, coalesce(t - lag(t) over (partition by k order by t) > :gap, 1) as begins from r
    ), islands as (
        select *, sum(begins) over (partition by k order by t rows unbounded preceding) as island from marked
    )
    select k, min(t), max(t), count(*), sum(v) from islands group by k, island
"""

SLIDING = """
    with bounds(k, s) as (
        select k, max(t - :d, 0) from r union select k, t + 1 from r
    )
    select b.k, b.s, b.s + :d, count(*), sum(v) from bounds b join r on r.k = b.k and r.t between b.s and b.s + :d
    group by 1, 2
"""
"""Each record's left window, and what begins after it; windows of the same records are found by their start."""

CASES: list[tuple[str, Any, str, dict[str, int]]] = [
    ("tumbling", TimeWindows(10, grace=GRACE), TUMBLING, {"size": 10}),
    ("hopping", TimeWindows(12, advance=5, grace=GRACE), HOPPING, {"size": 12, "advance": 5}),
    ("sessions", SessionWindows(6, grace=GRACE), SESSIONS, {"gap": 6}),
    ("sliding", SlidingWindows(10, grace=GRACE), SLIDING, {"d": 10}),
]


@pytest.mark.parametrize("how", ["update", "close", "suppress"])
@pytest.mark.parametrize(("windows", "query", "parameters"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@given(records=RECORDS, partitions=st.sampled_from([1, 2, 5]))
@settings(max_examples=12, deadline=None)
def test_the_last_rows_of_windows_are_sqls(
    how: str, windows: Any, query: str, parameters: dict[str, int], records: list[Row], partitions: int
) -> None:
    assert last_rows(count_and_sum(windows, how), records, partitions) == in_sql(query, records, **parameters)


@pytest.mark.parametrize("how", ["update", "close", "suppress"])
@pytest.mark.parametrize(("windows", "query", "parameters"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@given(records=RECORDS, crash_every=st.integers(1, 5))
@settings(max_examples=8, deadline=None)
def test_crashes_change_nothing_in_them(
    how: str, windows: Any, query: str, parameters: dict[str, int], records: list[Row], crash_every: int
) -> None:
    rows = last_rows(count_and_sum(windows, how), records, 1, crash_every)

    assert rows == in_sql(query, records, **parameters)


# ---- tables

ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.none() | st.tuples(st.sampled_from("xyz"), st.integers(-3, 9)),
        st.integers(0, 50),
    ),
    max_size=40,
)


def sums(source: Materialized[Any, Any] | None) -> Callable[[StreamsBuilder], KTable[Any, Any]]:
    """[number, sum] of the rows of each group, as long as it has rows."""

    def added(group: str, value: int, aggregate: list[int]) -> list[int]:
        return [aggregate[0] + 1, aggregate[1] + value]

    def taken(group: str, value: int, aggregate: list[int]) -> list[int] | None:
        return [aggregate[0] - 1, aggregate[1] - value] if aggregate[0] > 1 else None

    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        rows = builder.table("in", materialized=source)
        return rows.group_by(lambda key, row: (row[0], row[1])).aggregate(
            lambda: [0, 0], added, taken, materialized=Materialized.key_value("sums")
        )

    return shape


def rows_in_sql(changes: Iterable[tuple[str, tuple[str, int] | None, int]], *, versioned: bool) -> dict[str, list[int]]:
    """The groups of the rows that are there: of a versioned table the latest by time, else the last that came."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("create table c (n integer primary key, k text, g text, v integer, t integer)")
        rows = [(key, *(row or (None, None)), time if versioned else 0) for key, row, time in changes]
        database.executemany("insert into c (k, g, v, t) values (?, ?, ?, ?)", rows)
        found = database.execute(
            """
            select g, count(*), sum(v) from c as a
            where g is not null and not exists (select 1 from c as b where b.k = a.k and (b.t, b.n) > (a.t, a.n)) group by g
            """
        )
        return {group: [number, total] for group, number, total in found}


@pytest.mark.parametrize("versioned", [False, True])
@given(changes=ROWS, partitions=st.sampled_from([1, 2, 5]), crash_every=st.sampled_from([0, 2, 5]))
@settings(max_examples=25, deadline=None)
def test_the_groups_of_a_table_are_sqls(
    versioned: bool, changes: list[tuple[str, tuple[str, int] | None, int]], partitions: int, crash_every: int
) -> None:
    source = Materialized.versioned("rows", history_retention=1000) if versioned else None
    with TopologyTestDriver(topology(sums(source)), partitions=partitions, auto_commit=not crash_every) as driver:
        for number, (key, row, time) in enumerate(changes):
            driver.input_topic("in").send(row, key=key, timestamp=time)
            if crash_every and number % crash_every == 0:
                driver.commit()
            if crash_every and number % 3 == 0:
                driver.crash()
        driver.commit()
        expected = rows_in_sql(changes, versioned=versioned)

        assert dict(driver.store("sums").all()) == expected
        assert driver.output_topic("out").read_table() == expected
