"""Joins of two tables, as the tests of joins describe them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raystreams import Materialized, StreamsBuilder, Topology
from tests.operators.scenario import dashed

METHODS = ("join", "left_join", "outer_join")


def versioned(name: str, retention: int = 1000) -> Materialized[Any, Any]:
    return Materialized.versioned(name, history_retention=retention)


def joined(
    method: str,
    left: Materialized[Any, Any] | None = None,
    right: Materialized[Any, Any] | None = None,
    joiner: Callable[..., Any] = dashed,
    **options: Any,
) -> Topology:
    """The changes of the join of tables L and R."""
    builder = StreamsBuilder()
    tables = builder.table("L", materialized=left), builder.table("R", materialized=right)
    getattr(tables[0], method)(tables[1], joiner, **options).to_stream().to("out")
    return builder.build()
