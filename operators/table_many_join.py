"""The join of several tables on the same key in one step: `a.join([b, c], joiner)`, `joiner(a, b, c)`.

    change of a, b or c ---> its side: the latest rows of all the others ---> result

The rows are those of the chain `a.join(b).join(c)`, without a store or a look-up in between, and with one output for a
change: inner where all tables have a row, left where the first one has, outer where any has. What is missing is given to
the joiner as None. Times, old values and out-of-order changes are as in `table_table_join.py`, and so is when nothing is
said: exactly when the chain would say nothing.

    inner   any other row is missing
    left    another table's change: the first table's row is missing
            the first table's change: it had none and has none, and some other row is missing
    outer   the table had no row and has none, and no table before it has one (for the first table: nor has the second)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_join_result import Kind, add_result, draft_result
from raystreams.operators.table_table_join import TableJoin, add_table_join

if TYPE_CHECKING:
    from raystreams.operators.ktable import KTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyJoinSide:
    """Joins the changes of the table at `place` with the latest rows of all other `tables`."""

    kind: Kind
    joiner: Callable[..., Any]
    with_key: bool
    tables: tuple[str, ...]
    place: int
    versioned: bool
    sends_old: bool
    counted_as: str | None

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop = node.forward, node.failed, node.dropping_as(self.counted_as)
        versioned, sends_old, joiner, with_key = self.versioned, self.sends_old, self.joiner, self.with_key
        kind, place = self.kind, self.place
        lookups = [(i, node.view(table).get) for i, table in enumerate(self.tables) if i != place]
        count, before = len(self.tables), range(place) if place else (1,)
        others_may_be_alone = kind == "outer" or (kind == "left" and place > 0)

        def silent(present: list[bool], absent: bool) -> bool:
            """Whether to say nothing; `absent`: the table had no row and has none."""
            if kind == "inner" or (kind == "left" and place == 0 and absent):
                return sum(present) < count - 1
            if kind == "left":
                return place > 0 and not present[0]
            return absent and not any(present[i] for i in before)

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                return drop("null key")
            if versioned and not change.is_latest:
                return drop("out of order")
            new, old = change.new, change.old
            try:
                time, values, present = timestamp, [None] * count, [False] * count
                for i, get in lookups:
                    row = get(key)
                    if row is not None:
                        values[i], present[i] = row.value, True
                        if row.timestamp > time:
                            time = row.timestamp
                if silent(present, new is None and old is None):
                    return
                alone = others_may_be_alone and any(present)
                result = replaced = None
                if new is not None or alone:
                    values[place] = new
                    result = joiner(key, *values) if with_key else joiner(*values)
                if sends_old and (old is not None or alone):
                    values[place] = old
                    replaced = joiner(key, *values) if with_key else joiner(*values)
            except Exception as error:
                return failed(error, key, new, timestamp, headers)
            forward(key, Change(result, replaced, change.is_latest), time, headers)

        return process


def add_many_table_join(
    left: KTable[Any, Any], others: Sequence[KTable[Any, Any]], join: TableJoin
) -> KTable[Any, Any]:
    """`KTable.join`, `left_join` and `outer_join` with a list of tables."""
    if not others:
        raise ValueError("give at least one table to join with")
    if len(others) == 1:
        return add_table_join(left, others[0], join)
    draft, tables = left._draft, (left, *others)
    result = draft_result(tables, join)

    def add_side(place: int) -> str:
        if place == 0:
            name = draft.named("KTABLE-JOINTHIS-", join.suffixed("-join-this"))
        else:
            suffix = "-join-other" if place == 1 else f"-join-other-{place}"
            name = draft.named("KTABLE-JOINOTHER-", join.suffixed(suffix))

        def make() -> ManyJoinSide:
            return ManyJoinSide(
                kind=join.kind, joiner=join.joiner, with_key=join.with_key, tables=tuple(table._node for table in tables),
                place=place, versioned=tables[place]._table.versioned, sends_old=result.sends_old, counted_as=join.name,
            )  # fmt: skip

        stores = [other._table for i, other in enumerate(tables) if i != place]
        return draft.add(name, make, [tables[place]._node], stores=stores, on_error=join.on_error)

    return add_result(tables, join, result, [add_side(place) for place in range(len(tables))])
