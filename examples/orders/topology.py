"""Completed orders, each with all of its lines (KIP-955): one record out for every line of the order.

    lines, keyed by line id --order_id--> the partition of the order
    completed orders, keyed by order id --join--> one row a line

The lines are a versioned table: an order meets its lines as they were when it was completed, however late either comes.
"""

from __future__ import annotations

from dataclasses import dataclass

import raystreams as rs


@dataclass(frozen=True)
class Completed:
    customer: str


@dataclass(frozen=True)
class Line:
    order_id: str | None
    sku: str
    amount: int


@dataclass(frozen=True)
class Sold:
    customer: str
    sku: str | None
    amount: int | None


LINES = rs.Topic("lines", key=str, value=Line)
COMPLETED = rs.Topic("completed", key=str, value=Completed)
SOLD = rs.Topic("sold", key=str, value=Sold)


def sold(order: Completed, line: Line | None) -> Sold:
    return Sold(order.customer, line.sku if line else None, line.amount if line else None)


def build() -> rs.Topology:
    builder = rs.StreamsBuilder()
    history = rs.Materialized.versioned("lines-history", history_retention=86_400_000)
    lines = builder.table(LINES, materialized=history)
    (
        builder.stream(COMPLETED)
        .left_join(lines, sold, table_foreign_key=lambda line: line.order_id, name="sold-lines")
        .to(SOLD)
    )
    return builder.build()
