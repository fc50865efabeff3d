"""The join of two tables on the same key: inner, left, outer (spec-joins 3).

    left change  ---> this side  ---.
                                     >--- result (see table_join_result.py)
    right change ---> other side ---'

N, O: new and old value of the change; X: the other table's latest row, never one as of a time. An output's time is the larger
one of the change's and X's; each change gives at most one.

    side              silent if             new                        old
    inner             no X                  J(N, X) if N               J(O, X) if O
    left, left side   no X, no N, no O      J(N, X) if N               J(O, X) if O
    left, right side  no X                  J(X, N), also without N    J(X, O), also without O
    outer             no X, no N, no O      J if N or X                J if O or X

So repeated deletions come out as repeated results: an inner join deletes also what never was a result. Each input is judged for
itself: of a versioned one, changes that are not the latest of their key are dropped (KIP-914).

As in Kafka a table joined with itself says nothing when a row is deleted: each side finds the other gone already. Joins whose
inputs share a store are warned about when they are described.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.joiners import own_first
from raystreams.operators.options import Hint, Materialized, OnError
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_join_result import Kind, add_result, draft_result

if TYPE_CHECKING:
    from raystreams.operators.ktable import KTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoin:
    """What was asked for, whatever the kind of join."""

    kind: Kind
    joiner: Callable[..., Any]
    with_key: bool
    value: Hint
    materialized: Materialized[Any, Any] | None
    name: str | None
    on_error: OnError | None

    def suffixed(self, suffix: str) -> str | None:
        """The name of one of the join's nodes, None if it is to be generated."""
        return None if self.name is None else self.name + suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """Joins the changes of one table with the latest rows of the other."""

    kind: Kind
    is_left: bool
    joiner: Callable[..., Any]
    with_key: bool
    other: str
    versioned: bool
    sends_old: bool
    counted_as: str | None

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop = node.forward, node.failed, node.dropping_as(self.counted_as)
        get, versioned, sends_old = node.view(self.other).get, self.versioned, self.sends_old
        join = own_first(self.joiner, with_key=self.with_key, is_left=self.is_left)
        needs_other = self.kind == "inner" or (self.kind == "left" and not self.is_left)
        other_may_be_alone = self.kind == "outer" or (self.kind == "left" and not self.is_left)

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                return drop("null key")
            if versioned and not change.is_latest:
                # A late version of a versioned table joins nothing (KIP-914).
                return drop("out of order")
            new, old = change.new, change.old
            try:
                row = get(key)
                if row is None:
                    if needs_other or (new is None and old is None):
                        return
                    other, time, alone = None, timestamp, False
                else:
                    other, time, alone = row.value, max(timestamp, row.timestamp), other_may_be_alone
                result = join(key, new, other) if new is not None or alone else None
                replaced = join(key, old, other) if sends_old and (old is not None or alone) else None
            except Exception as error:
                return failed(error, key, new, timestamp, headers)
            forward(key, Change(result, replaced, change.is_latest), time, headers)

        return process


def add_table_join(left: KTable[Any, Any], right: KTable[Any, Any], join: TableJoin) -> KTable[Any, Any]:
    """`KTable.join`, `left_join` and `outer_join` with one other table."""
    draft = left._draft
    result = draft_result((left, right), join)
    this = draft.named("KTABLE-JOINTHIS-", join.suffixed("-join-this"))
    other = draft.named("KTABLE-JOINOTHER-", join.suffixed("-join-other"))

    def side(table: KTable[Any, Any], joined_with: KTable[Any, Any], is_left: bool) -> JoinSide:
        return JoinSide(
            kind=join.kind, is_left=is_left, joiner=join.joiner, with_key=join.with_key, other=joined_with._node,
            versioned=table._table.versioned, sends_old=result.sends_old, counted_as=join.name,
        )  # fmt: skip

    # This side first: where both tables come from one source, it sees the change before the other side does.
    draft.add(this, lambda: side(left, right, True), [left._node], stores=[right._table], on_error=join.on_error)
    draft.add(other, lambda: side(right, left, False), [right._node], stores=[left._table], on_error=join.on_error)
    return add_result((left, right), join, result, [this, other])
