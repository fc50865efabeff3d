"""Foreign-key joins of typed values, of a table with itself, and in chains (B54), also over crashes."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import Materialized, Record, StreamsBuilder, Topology, TopologyTestDriver
from tests.operators.foreign_keys import of_tables
from tests.operators.scenario import after_bar, dashed, rows, run


@dataclass
class Order:
    user: str
    amount: float


def test_a_value_that_changes_its_form_on_the_way_through_the_store_is_still_the_one_that_asked() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("L").map_values(lambda value: Order(user=value, amount=5), value=Order).to_table()
    users = builder.table("R")
    orders.join(users, lambda order, user: f"{order.amount} {user}", foreign_key=lambda order: order.user).to_stream().to("out")

    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("R").send("Ada", key="u", timestamp=1)
        driver.input_topic("L").send("u", key="o", timestamp=2)

        assert driver.output_topic("out").read_values() == ["5.0 Ada"]


def test_a_derived_table_without_a_store_is_joined_like_any_other() -> None:
    builder = StreamsBuilder()
    left = builder.table("L").map_values(str.lower).filter(lambda key, value: not value.startswith("-"))
    right = builder.table("R").map_values(str.upper)
    left.left_join(right, dashed, foreign_key=after_bar).to_stream().to("out")

    run(
        builder.build(),
        rows("""
            L a A|r 1   -> a:a|r-null@1
            R r x 2     -> a:a|r-X@2
            L a -A|r 3  -> a:null@3
            R r y 4     -> -
            L a B|R 5   -> a:b|r-Y@5
            R r ~ 6     -> a:b|r-null@6
        """),
    )


def test_a_table_joined_with_itself() -> None:
    builder = StreamsBuilder()
    people = builder.table("P")
    people.left_join(people, dashed, foreign_key=after_bar).to_stream().to("out")

    run(
        builder.build(),
        rows("""
            P ann Ann|~ 1   -> ann:Ann|~-null@1
            P bob Bob|ann 2 -> bob:Bob|ann-Ann|~@2
            P ann Eve|bob 3 -> bob:Bob|ann-Eve|bob@3 ann:Eve|bob-Bob|ann@3
            P bob ~ 4       -> ann:Eve|bob-null@4 bob:null@4
        """),
        partitions=1,
    )


# ---- orders, users and products: each order has a user and a product


def chain(kind: str, materialized: bool) -> Topology:
    def named(name: str) -> Materialized[Any, Any] | None:
        return Materialized.key_value(name) if materialized else None

    builder = StreamsBuilder()
    orders, users, products = builder.table("O"), builder.table("U"), builder.table("P")

    def join(table: Any, *arguments: Any, **options: Any) -> Any:
        return (table.join if kind == "inner" else table.left_join)(*arguments, **options)

    of_users = join(
        orders, users, lambda o, u: {**o, "name": u}, foreign_key=lambda o: o["u"], materialized=named("one")
    )
    of_both = join(
        of_users, products, lambda o, p: {**o, "price": p}, foreign_key=lambda o: o["p"], materialized=named("two")
    )
    of_both.to_stream().to("out")
    kept = of_both.filter(lambda key, o: o["price"] is not None)
    kept.group_by(lambda key, o: (o["name"], o["price"])).reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream().to("sums")
    return builder.build()


CHAINS = {(kind, kept): chain(kind, kept) for kind in ("inner", "left") for kept in (False, True)}
Change = tuple[str, str, Any]
CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.just("O"), st.sampled_from("abc"),
            st.none() | st.fixed_dictionaries({"u": st.sampled_from(["u", "v", None]), "p": st.sampled_from(["p", "q", None])}),
        ),
        st.tuples(st.just("U"), st.sampled_from("uv"), st.none() | st.sampled_from(["Ada", "Bob"])),
        st.tuples(st.just("P"), st.sampled_from("pq"), st.none() | st.integers(1, 3)),
    ),
    max_size=20,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(CHANGES, st.sampled_from(["inner", "left"]), st.booleans(), st.sampled_from([1, 2, 5]))
def test_at_every_quiet_point_a_chain_is_the_join_that_sql_makes_of_all_tables(
    changes: list[Change], kind: str, materialized: bool, partitions: int
) -> None:
    tables: dict[str, dict[str, Any]] = {"O": {}, "U": {}, "P": {}}
    result: dict[str, Any] = {}
    sums: dict[str, Any] = {}
    with TopologyTestDriver(CHAINS[kind, materialized], partitions=partitions) as driver:
        for time, (topic, key, value) in enumerate(changes):
            driver.input_topic(topic).send(value, key=key, timestamp=time)
            tables[topic].pop(key, None)
            if value is not None:
                tables[topic][key] = value
            result.update((record.key, record.value) for record in driver.output_topic("out").read_all())
            sums.update((record.key, record.value) for record in driver.output_topic("sums").read_all())

            assert {k: v for k, v in result.items() if v is not None} == sql_chain(kind, tables)
    wanted: dict[str, int] = {}
    for row in sql_chain(kind, tables).values():
        if row["price"] is not None and row["name"] is not None:
            wanted[row["name"]] = wanted.get(row["name"], 0) + row["price"]
    assert {name: total for name, total in sums.items() if total} == wanted


def sql_chain(kind: str, tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    database = sqlite3.connect(":memory:")
    try:
        database.execute("create table o (k, u, p)")
        database.executemany("insert into o values (?, ?, ?)", [(k, v["u"], v["p"]) for k, v in tables["O"].items()])
        for name in ("U", "P"):
            database.execute(f"create table {name} (k, v)")
            database.executemany(f"insert into {name} values (?, ?)", tables[name].items())
        query = f"select o.k, o.u, o.p, u.v, p.v from o {kind} join u on o.u = u.k {kind} join p on o.p = p.k"
        return {k: {"u": u, "p": p, "name": n, "price": price} for k, u, p, n, price in database.execute(query)}
    finally:
        database.close()


# ---- crashes


CRASHES = """
    R r1 x 1
    L a A|r1 2
    L b B|r2 3
    R r2 y 4
    L a A|r2 5
    R r1 z 6
    L b ~ 7
    R r2 ~ 8
"""


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("every", [1, 2, 3])
def test_crashes_change_no_result(kind: str, partitions: int, every: int) -> None:
    topology = of_tables(kind)
    lists: list[dict[str, list[Record[Any, Any]]]] = []
    for crash in (False, True):
        with TopologyTestDriver(topology, partitions=partitions, auto_commit=False) as driver:
            for number, line in enumerate(CRASHES.strip().splitlines()):
                topic, key, value, time = line.split()
                driver.input_topic(topic).send(None if value == "~" else value, key=key, timestamp=int(time))
                if number % 2:
                    driver.commit()
                if crash and number % every == 0:
                    driver.crash()
            driver.commit()
            out = driver.output_topic("out").read_all()
            lists.append({key: [record for record in out if record.key == key] for key in "ab"})

    assert lists[0] == lists[1]
    assert all(lists[0].values())
