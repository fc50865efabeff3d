"""A foreign-key join of two tables that change: orders of customers, with what SQL says of the same rows."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from random import Random
from typing import Any

from raystreams import ClusterSettings, Job, JsonLinesSink, JsonLinesSource, Materialized, StreamsBuilder, Topic, Topology

CUSTOMERS, ORDERS = 400, 2_000
FILES = 4


def topology() -> Topology:
    """Orders with their customers, or without; and those that have one."""
    orders, customers = Topic("orders", key=int, value=dict[str, Any]), Topic("customers", key=int, value=dict[str, Any])
    builder = StreamsBuilder()
    left = builder.table(orders, materialized=Materialized.key_value("orders"))
    right = builder.table(customers, materialized=Materialized.key_value("customers"))

    def customer_of(order: dict[str, Any]) -> Any:
        return order["customer"]

    def pair(order: dict[str, Any], customer: dict[str, Any] | None) -> dict[str, Any]:
        return {"order": order["amount"], "customer": None if customer is None else customer["name"]}

    all_orders = left.left_join(
        right, pair, foreign_key=customer_of, materialized=Materialized.key_value("all-orders"), name="all"
    )
    known = left.join(right, pair, foreign_key=customer_of, materialized=Materialized.key_value("known-orders"), name="known")
    all_orders.to_stream().to("all")
    known.to_stream().to("known")
    return builder.build()


def write_data(folder: Path, changes: int, seed: int) -> None:
    """Random changes of both tables, in files whose keys don't overlap; some rows are deletions."""
    random = Random(seed)
    files = {name: [open(folder / f"{name}-{n}.jsonl", "w") for n in range(FILES)] for name in ("orders", "customers")}  # noqa: SIM115
    for at in range(changes):
        deleted = random.random() < 0.1
        if random.random() < 0.7:
            row: dict[str, Any] = {"id": random.randrange(ORDERS)}
            row |= {"customer": random.choice([None, *range(0, CUSTOMERS, 1)]), "amount": at}
            name = "orders"
        else:
            row, name = {"id": random.randrange(CUSTOMERS), "name": f"name {at}"}, "customers"
        files[name][row["id"] % FILES].write(json.dumps({**row, "at": at, "deleted": deleted}) + "\n")
    for opened in (*files["orders"], *files["customers"]):
        opened.close()


def job_of(folder: Path, data: Path, partitions: int = 4, **settings: Any) -> Job:
    """The job, with its state and outputs in a folder."""

    def source(name: str) -> JsonLinesSource:
        return JsonLinesSource(str(data / f"{name}-*.jsonl"), key="id", timestamp="at", deleted="deleted")

    def sink(name: str) -> JsonLinesSink:
        return JsonLinesSink(str(folder / "out" / name), key="id")

    job = Job(
        "orders", topology(), sources={"orders": source("orders"), "customers": source("customers")},
        sinks={"all": sink("all"), "known": sink("known")}, partitions=partitions, state_dir=folder / "state", **settings,
    )  # fmt: skip
    job.folder = Path(__file__).parent
    return job


def size_of(folder: Path) -> int:
    """Bytes of the outputs."""
    return sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file())


def final_tables(folder: Path) -> dict[str, dict[int, Any]]:
    """The last value of each key of both outputs."""
    tables: dict[str, dict[int, Any]] = {}
    for name in ("all", "known"):
        table = tables[name] = {}
        for path in sorted((folder / "out" / name).rglob("*.jsonl")):
            for row in map(json.loads, path.read_text().splitlines()):
                key = row.pop("id")
                table[key] = row
        tables[name] = {key: row for key, row in table.items() if row and row.get("order") is not None}
    return tables


def sql_tables(data: Path) -> dict[str, dict[int, Any]]:
    """What SQL makes of the last rows of both tables."""
    database = sqlite3.connect(":memory:")
    database.execute("create table orders (id integer primary key, customer integer, amount integer)")
    database.execute("create table customers (id integer primary key, name text)")
    for name, columns in (("orders", ("customer", "amount")), ("customers", ("name",))):
        for path in sorted(data.glob(f"{name}-*.jsonl")):
            for row in map(json.loads, path.read_text().splitlines()):
                if row["deleted"]:
                    database.execute(f"delete from {name} where id = ?", (row["id"],))
                else:
                    values = [row["id"], *(row[column] for column in columns)]
                    database.execute(f"insert or replace into {name} values ({', '.join('?' * len(values))})", values)
    join = "select o.id, o.amount, c.name from orders o {} join customers c on c.id = o.customer"
    return {
        name: {id: {"order": amount, "customer": customer} for id, amount, customer in database.execute(join.format(kind))}
        for name, kind in (("all", "left"), ("known", "inner"))
    }


def with_standby() -> ClusterSettings:
    """A standby for each task."""
    return ClusterSettings(num_cpus=0.5, standby_replicas=1)
