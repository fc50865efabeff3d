"""Foreign-key joins while messages overtake one another: stale answers change nothing, and results converge (B09)."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raystreams.stores.serdes import key_serde, partition_of

from raystreams import Record, StreamsBuilder, Topology
from tests.operators.delayed import DelayedDriver, Edge
from tests.operators.foreign_keys import of_tables
from tests.operators.scenario import after_bar, dashed


def keys_apart(partitions: int) -> list[str]:
    """A right key for each partition."""
    encode = key_serde(None).encode
    found: dict[int, str] = {}
    for n in range(1000):
        found.setdefault(partition_of(encode(f"r{n}"), partitions), f"r{n}")
    return [found[partition] for partition in range(partitions)]


def there_and_back(kind: str) -> tuple[DelayedDriver, str, str]:
    """A row that went from one right key to another and back, nothing delivered; the right keys."""
    one, two = keys_apart(2)
    driver = DelayedDriver(of_tables(kind, name="j"), partitions=2)
    driver.send("R", one, "A", 0)
    driver.send("R", two, "B", 0)
    for n, key in enumerate((one, two, one)):
        driver.send("L", "p", f"1|{key}", 10 + n)
    return driver, one, two


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_an_answer_that_a_newer_value_has_overtaken_is_dropped_and_counted(kind: str) -> None:
    driver = DelayedDriver(of_tables(kind, name="j"), partitions=2)
    driver.send("R", "r1", "A", 0)
    driver.send("L", "p", "1|r1", 10)
    driver.send("L", "p", "2|r1", 11)

    driver.deliver_all()

    assert [(r.value, r.timestamp) for r in driver.outputs] == [("2|r1-A", 11)]
    assert driver.dropped == {("j", "stale response"): 1}


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_row_that_goes_to_another_key_and_back_has_one_subscription(kind: str, first: int) -> None:
    driver, one, two = there_and_back(kind)
    registration, response = driver.topology.channels

    # The answers of the two partitions come in either order.
    driver.deliver_all(lambda edges: next(edge for edge in edges if edge[0] == registration or edge == edges[-1]))
    answers = [edge for edge in driver.edges if edge[0] == response]
    assert not any(driver.edges[edge] for edge in answers)
    driver.outputs.clear()
    driver.send("R", two, "B2", 20)
    driver.deliver_all()
    assert driver.outputs == []
    driver.send("R", one, "A2", 21)
    driver.deliver_all(lambda edges: edges[-first])

    assert driver.outputs == [Record("p", f"1|{one}-A2", 21)]


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("last", [0, 1])
def test_the_answers_of_two_partitions_may_come_in_either_order(kind: str, last: int) -> None:
    driver, one, _ = there_and_back(kind)
    registration = next(iter(driver.topology.channels))
    while requests := [edge for edge in driver.waiting if edge[0] == registration]:
        driver.deliver(requests[0])
    answers = sorted(driver.waiting, key=lambda edge: edge[1], reverse=bool(last))

    driver.deliver_all(lambda edges: next(edge for edge in answers if edge in edges))

    # The first subscription's answer carries the hash of an equal value, so it is as good as the third's.
    assert {r.value for r in driver.outputs} == {f"1|{one}-A"}
    assert driver.dropped == {("j", "stale response"): 1}


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize(
    "meanwhile",
    [
        [("R", "r", None), ("L", "p", "2|r")],
        [("L", "p", None), ("L", "p", "2|s")],
        [("L", "p", "2|~"), ("L", "p", "3|~")],
        [("L", "p", "2|~"), ("L", "p", None)],
        [("L", "p", None), ("R", "r", None), ("L", "p", "1|r")],
    ],
)
@pytest.mark.parametrize("first", [0, -1])
def test_a_result_that_has_to_go_goes_although_the_row_changes_before_it_is_told(
    kind: str, meanwhile: list[tuple[str, str, str | None]], first: int
) -> None:
    driver = DelayedDriver(of_tables(kind, name="j"), partitions=2)
    driver.send("R", "r", "A", 0)
    driver.send("L", "p", "1|r", 1)
    driver.deliver_all()
    for topic, key, value in meanwhile:
        driver.send(topic, key, value, 2)

    driver.deliver_all(lambda edges: edges[first])

    left = meanwhile[-1][2]
    assert driver.outputs[-1].value == (None if kind == "inner" or left is None else dashed(left, None))


LEFT, RIGHT = [f"p{n}" for n in range(4)], [f"r{n}" for n in range(4)]
LEFT_VALUES = [f"{value}|{key}" for value in "ab" for key in (*RIGHT, "~")]
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("L"), st.sampled_from(LEFT), st.none() | st.sampled_from(LEFT_VALUES)),
        st.tuples(st.just("R"), st.sampled_from(RIGHT), st.none() | st.sampled_from(["x", "y"])),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(CHANGES, st.sampled_from([1, 2, 5]), st.sampled_from(["inner", "left"]), st.data())
def test_at_rest_the_result_is_the_join_that_sql_makes_of_both_tables(
    changes: list[tuple[str, str, str | None]], partitions: int, kind: str, data: st.DataObject
) -> None:
    driver = DelayedDriver(TOPOLOGIES[kind], partitions)

    def choose(edges: list[Edge]) -> Edge:
        return data.draw(st.sampled_from(edges))

    for time, (topic, key, value) in enumerate(changes):
        driver.send(topic, key, value, time)
        for _ in range(data.draw(st.integers(0, 3))):
            if driver.waiting:
                driver.deliver(choose(driver.waiting))
    driver.deliver_all(choose)

    result = {record.key: record.value for record in driver.outputs}
    assert {key: value for key, value in result.items() if value is not None} == sql_join(kind, changes)


def to_itself(kind: str) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("L")
    join = table.join if kind == "inner" else table.left_join
    join(table, dashed, foreign_key=after_bar).to_stream().to("out")
    return builder.build()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(LEFT), st.none() | st.sampled_from([f"{v}|{k}" for v in "ab" for k in (*LEFT, "~")]))),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(["inner", "left"]),
    st.data(),
)
def test_a_table_joined_with_itself_comes_to_rest_at_what_sql_says(
    changes: list[tuple[str, str | None]], partitions: int, kind: str, data: st.DataObject
) -> None:
    driver = DelayedDriver(to_itself(kind), partitions)
    for time, (key, value) in enumerate(changes):
        driver.send("L", key, value, time)
        for _ in range(data.draw(st.integers(0, 3))):
            if driver.waiting:
                driver.deliver(data.draw(st.sampled_from(driver.waiting)))
    driver.deliver_all(lambda edges: data.draw(st.sampled_from(edges)))

    result = {record.key: record.value for record in driver.outputs}
    both = [(topic, key, value) for key, value in changes for topic in ("L", "R")]
    assert {key: value for key, value in result.items() if value is not None} == sql_join(kind, both)


TOPOLOGIES = {kind: of_tables(kind, name="j") for kind in ("inner", "left")}


def sql_join(kind: str, changes: list[tuple[str, str, str | None]]) -> dict[str, Any]:
    """The join of the last rows of both tables, by SQLite."""
    tables: dict[str, dict[str, str]] = {"L": {}, "R": {}}
    for topic, key, value in changes:
        if value is None:
            tables[topic].pop(key, None)
        else:
            tables[topic][key] = value
    database = sqlite3.connect(":memory:")
    try:
        database.execute("create table l (k, v, fk)")
        database.execute("create table r (k, v)")
        database.executemany("insert into l values (?, ?, ?)", [(k, v, after_bar(v)) for k, v in tables["L"].items()])
        database.executemany("insert into r values (?, ?)", tables["R"].items())
        found = database.execute(f"select l.k, l.v, r.v from l {kind} join r on l.fk = r.k").fetchall()
    finally:
        database.close()
    return {key: dashed(left, right) for key, left, right in found}
