"""The workloads as raystreams jobs: embedded, exactly once, LevelDB on, one process."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import raystreams as rs

Row = dict[str, Any]


def counted(user: str, count: int) -> Row:
    return {"user": user, "count": count}


def priced(order: Row, price: Row) -> Row:
    return {"product": order["product"], "order": order["order"], "value": price["price"] * order["qty"]}


def w1(data: Path, out: Path, partitions: int) -> rs.Job:
    builder = rs.StreamsBuilder()
    views = builder.stream(rs.Topic("views", key=str))
    views.group_by_key().count(name="views-by-user").to_stream().map_values(counted, with_key=True).to("counts")
    source = rs.JsonLinesSource(data / "w1.jsonl", key="user", timestamp="ts")
    return rs.Job(
        "w1", builder.build(), partitions=partitions, state_dir=out / "state",
        sources={"views": source}, sinks={"counts": rs.JsonLinesSink(out / "counts")},
    )


def w3(data: Path, out: Path, partitions: int) -> rs.Job:
    builder = rs.StreamsBuilder()
    history = rs.Materialized.versioned("price-history", history_retention=timedelta(hours=1))
    prices = builder.table(rs.Topic("prices", key=str), materialized=history)
    builder.stream(rs.Topic("orders", key=str)).join(prices, priced, name="priced").to("sales")
    return rs.Job(
        "w3", builder.build(), partitions=partitions, state_dir=out / "state",
        sources={
            "prices": rs.JsonLinesSource(data / "w3_prices.jsonl", key="product", timestamp="ts"),
            "orders": rs.JsonLinesSource(data / "w3_orders.jsonl", key="product", timestamp="ts"),
        },
        sinks={"sales": rs.JsonLinesSink(out / "sales")},
    )


WORKLOADS = {"w1": w1, "w3": w3}

if __name__ == "__main__":
    name, data, out, partitions = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    WORKLOADS[name](data, out, partitions).run()
