"""Topologies that join by what follows the bar in a value, with the joiner of the specification's vectors."""

from __future__ import annotations

from typing import Any

import pytest

from raystreams import Materialized, StreamsBuilder, Topology
from tests.operators.scenario import after_bar, dashed

INNER_AND_LEFT = pytest.mark.parametrize(("kind", "column"), [("inner", 0), ("left", 1)])
LEFT_AND_INNER = pytest.mark.parametrize(("kind", "column"), [("left", 0), ("inner", 1)])


def of_tables(
    kind: str = "inner",
    *,
    left: Materialized[Any, Any] | None = None,
    right: Materialized[Any, Any] | None = None,
    **options: Any,
) -> Topology:
    """The table L joined with the table R by L's foreign key, written to `out`."""
    builder = StreamsBuilder()
    left_table, right_table = builder.table("L", materialized=left), builder.table("R", materialized=right)
    join = left_table.join if kind == "inner" else left_table.left_join
    join(right_table, dashed, foreign_key=after_bar, **options).to_stream().to("out")
    return builder.build()


def of_stream(side: str, kind: str = "left", *, retention: int | None = None, **options: Any) -> Topology:
    """The stream S joined with the table T by the foreign key of one side, written to `out`; `retention` makes T versioned."""
    builder = StreamsBuilder()
    materialized = None if retention is None else Materialized.versioned("t", history_retention=retention)
    stream, table = builder.stream("S"), builder.table("T", materialized=materialized)
    join = stream.join if kind == "inner" else stream.left_join
    foreign_key: dict[str, Any] = {side: after_bar}
    join(table, dashed, **foreign_key, **options).to("out")
    return builder.build()
