"""Joins of tables against SQL: whatever the order of changes, crashes and partitions, the last rows are those of the join.

SQLite has the tables' current rows: of versioned tables the latest by time, of others the last that came.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import Materialized, StreamsBuilder, Topology, TopologyTestDriver
from tests.operators.table_joins import METHODS

Change = tuple[str, str, str | None, int]

SQL = {
    "join": "select l.k, l.v, r.v from l join r on l.k = r.k",
    "left_join": "select l.k, l.v, r.v from l left join r on l.k = r.k",
    "outer_join": """
        select l.k, l.v, r.v from l left join r on l.k = r.k
        union all select r.k, null, r.v from r where r.k not in (select k from l)
    """,
}

CHANGES = st.lists(
    st.tuples(st.sampled_from("LR"), st.sampled_from("abcd"), st.none() | st.sampled_from("xyz"), st.integers(0, 30)),
    max_size=40,
)


def pair(left: str | None, right: str | None) -> list[str | None]:
    return [left, right]


def joined(method: str, versioned: tuple[bool, bool], stored: bool) -> Topology:
    builder = StreamsBuilder()
    left, right = (
        builder.table(name, materialized=Materialized.versioned(name, history_retention=1000) if one else None)
        for name, one in zip("LR", versioned, strict=True)
    )
    result = getattr(left, method)(right, pair, materialized=Materialized.key_value("result") if stored else None)
    result.to_stream().to("out")
    return builder.build()


def in_sql(method: str, changes: Iterable[Change], versioned: tuple[bool, bool]) -> dict[str, list[str | None]]:
    """The join of the current rows."""
    with closing(sqlite3.connect(":memory:")) as database:
        for name, one in zip("lr", versioned, strict=True):
            database.execute("create table versions (n integer primary key, k text, v text, since integer)")
            rows = [(k, v, since if one else 0) for topic, k, v, since in changes if topic.lower() == name]
            database.executemany("insert into versions (k, v, since) values (?, ?, ?)", rows)
            database.execute(
                f"""
                create table {name} as select k, v from versions as a where v is not null and not exists
                (select 1 from versions as b where b.k = a.k and (b.since, b.n) > (a.since, a.n))
                """
            )
            database.execute("drop table versions")
        return {key: [left, right] for key, left, right in database.execute(SQL[method])}


@pytest.mark.parametrize("method", METHODS)
@given(changes=CHANGES, versioned=st.tuples(st.booleans(), st.booleans()), stored=st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_last_rows_are_those_of_the_sql_join(
    method: str, changes: list[Change], versioned: tuple[bool, bool], stored: bool
) -> None:
    with TopologyTestDriver(joined(method, versioned, stored), partitions=2) as driver:
        for topic, key, value, timestamp in changes:
            driver.input_topic(topic).send(value, key=key, timestamp=timestamp)
        table = {key: row for key, row in driver.output_topic("out").read_table().items() if row is not None}

        assert table == in_sql(method, changes, versioned)
        if stored:
            assert dict(driver.store("result").all()) == table


@pytest.mark.parametrize("method", METHODS)
@given(changes=CHANGES, crashes=st.sets(st.integers(0, 39)))
@settings(max_examples=15, deadline=None)
def test_a_join_that_crashes_says_the_same_list(method: str, changes: list[Change], crashes: set[int]) -> None:
    lists: list[Any] = []
    for crashing in (False, True):
        with TopologyTestDriver(joined(method, (True, False), True), auto_commit=False) as driver:
            for number, (topic, key, value, timestamp) in enumerate(changes):
                driver.input_topic(topic).send(value, key=key, timestamp=timestamp)
                if number % 4 == 0:
                    driver.commit()
                if crashing and number in crashes:
                    driver.crash()
            driver.commit()
            lists.append(driver.output_topic("out").read_all())

    assert lists[0] == lists[1]
