"""The windowed join of two streams: inner, left, outer (spec-joins 7).

    left  --> window --> this side  --.
                (keeps     |   |       >-- merge
    right --> window --> other side --'
                           |
                 unmatched records (left and outer)

A left record at tl and a right one at tr with equal keys match if tl - before <= tr <= tl + after. Each record is joined with
what the other window holds, in the order of its time, then arrival, and only then put into its own window. An output has the
larger of both times, and the headers of the record that came last.

A window forgets a record when its own clock is before + after + grace ahead of it; where one bound is negative, the other one
and grace, as otherwise records that are in order would not meet (Kafka's don't). Late records are not dropped: they are joined
with what the other window still holds; what their own refuses is counted as "expired". Without grace a record at the far end of
a one-sided window may just have been forgotten, and windows without length hold nothing, as in Kafka; 1 ms of grace helps.

S is the largest time that the join has seen on either side, dropped records included. Unmatched records are given out by it:
see `unmatched.py`.

    null value                dropped, "null value"
    null key, preserved side  J(v, None) at once; nothing is kept
    null key, other side      dropped, "null key"

A stream joined with itself is no special case: each record meets itself on its second way through.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.hints import value_of
from raystreams.operators.joiners import own_first
from raystreams.operators.options import StreamJoined
from raystreams.operators.record import Headers, Process
from raystreams.operators.stateless import PassThrough
from raystreams.operators.unmatched import LEFT, RIGHT, Unmatched, UnmatchedRecords
from raystreams.operators.windows import JoinWindows
from raystreams.stores.builders import Stores, outer_join_buffer

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream
    from raystreams.operators.kstream_joins import StreamJoin

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWindow:
    """Hands each record to its side of the join, then keeps it: so no record meets itself on its own side."""

    store: str
    counted_as: str | None

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop = node.forward, node.failed, node.dropping_as(self.counted_as)
        window = node.store(self.store)
        put, refused = window.put, window.dropped

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            nonlocal refused
            forward(key, value, timestamp, headers)
            if key is None or value is None:
                return
            try:
                put(key, value, timestamp)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            if window.dropped != refused:
                refused = window.dropped
                drop("expired")

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """Joins the records of one side with the window of the other."""

    side: int
    other_window: str
    windows: JoinWindows
    joiner: Callable[..., Any]
    with_key: bool
    unmatched: Unmatched | None
    counted_as: str | None

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, drop = node.forward, node.failed, node.dropping_as(self.counted_as)
        find = self._matches(node)
        if self.unmatched is None:

            def process_inner(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                if value is None:
                    return drop("null value")
                if key is None:
                    return drop("null key")
                try:
                    results = find(key, value, timestamp)
                except Exception as error:
                    return failed(error, key, value, timestamp, headers)
                for time, result in results:
                    forward(key, result, max(timestamp, time), headers)

            return process_inner

        unmatched = UnmatchedRecords(self.unmatched, node, self.side)
        clock, preserved, flush, keep = unmatched.clock, unmatched.preserved, unmatched.flush, unmatched.keep
        meet = unmatched.meet if self.unmatched.preserved[1 - self.side] else None

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if timestamp > clock.value:
                clock.value = timestamp
            if value is None:
                return drop("null value")
            if key is None:
                return unmatched.give(None, value, timestamp, headers) if preserved else drop("null key")
            if timestamp == clock.value:
                flush(timestamp, headers)
            try:
                results = find(key, value, timestamp)
                if not results and (not preserved or keep(key, value, timestamp)):
                    return
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            if not results:
                return unmatched.give(key, value, timestamp, headers)
            for time, result in results:
                if meet is not None:
                    meet(key, time)
                forward(key, result, max(timestamp, time), headers)

        return process

    def _matches(self, node: NodeRuntime) -> Callable[[Any, Any, int], list[tuple[int, Any]]]:
        """The joined results of a record with the other window, each with the time of what was found."""
        fetch = node.store(self.other_window).fetch
        join = own_first(self.joiner, with_key=self.with_key, is_left=self.side == LEFT)
        back, ahead = self.windows.before, self.windows.after
        if self.side == RIGHT:
            back, ahead = ahead, back

        def find(key: Any, value: Any, timestamp: int) -> list[tuple[int, Any]]:
            hits = list(fetch(key, timestamp - back, timestamp + ahead))
            return [(time, join(key, value, other)) for time, other in hits]

        return find


def add_stream_stream_join(
    left: KStream[Any, Any], right: KStream[Any, Any], join: StreamJoin
) -> KStream[Any, Any]:
    """`KStream.join`, `left_join` and `outer_join` with another stream."""
    from raystreams.operators.kstream import KStream

    draft, windows = left._draft, join.windows
    assert windows is not None
    if right._draft is not draft:
        raise ValueError("both streams must come from the same StreamsBuilder")

    def named(prefix: str, suffix: str) -> str:
        return draft.named(prefix, None if join.name is None else join.name + suffix)

    left = left._keyed(left._node if join.name is None else f"{join.name}-left")
    right = right._keyed(right._node if join.name is None else f"{join.name}-right")
    outer_this, outer_other = ("OUTER" if join.kind == "outer" else ""), ("OUTER" if join.left else "")
    this_window, other_window = named("KSTREAM-WINDOWED-", "-this-windowed"), named("KSTREAM-WINDOWED-", "-other-windowed")
    this = named(f"KSTREAM-{outer_this or 'JOIN'}THIS-", "-outer-this-join" if outer_this else "-this-join")
    other = named(f"KSTREAM-{outer_other or 'JOIN'}OTHER-", "-outer-other-join" if outer_other else "-other-join")
    merge = named("KSTREAM-MERGE-", "-merge")

    settings = join.stream_joined or StreamJoined()
    base = settings.store_name or join.name
    if base is None:
        names = (f"{this}-store", f"{other}-store", f"KSTREAM-OUTERSHARED-{this[-10:]}-store")
    else:
        names = (
            f"{base}-outer-this-join-store" if outer_this else f"{base}-this-join-store",
            f"{base}-outer-other-join-store" if outer_other else f"{base}-other-join-store",
            f"{base}-{join.kind}-shared-join-store",
        )
    left_store, right_store, shared = (draft.store_of(name, "", base) for name in names)
    size = windows.before + windows.after
    kept = max(size, windows.before, windows.after) + windows.grace
    if kept == 0:
        _logger.warning("%r joins nothing: its windows have no length and no grace, so they hold no record", merge)
    for store, stream in ((left_store, left), (right_store, right)):
        draft.add_store(
            Stores.window(
                store, retention=kept, size=size, retain_duplicates=True, key=stream._key,
                value=stream._value, in_memory=settings.in_memory,
            )
        )  # fmt: skip
    unmatched = None
    if join.left:
        draft.add_store(outer_join_buffer(shared))
        unmatched = Unmatched(
            store=shared, merge=merge, preserved=(join.kind == "outer", True), windows=windows, joiner=join.joiner,
            with_key=join.with_key, keys=(right._key, left._key), values=(right._value, left._value),
        )  # fmt: skip

    def add_side(side: int, node: str, window: str, stream: KStream[Any, Any], own: str, others: str) -> None:
        draft.add(window, lambda: JoinWindow(store=own, counted_as=join.name), [stream._node], stores=[own])
        operator = JoinSide(
            side=side, other_window=others, windows=windows, joiner=join.joiner, with_key=join.with_key,
            unmatched=unmatched, counted_as=join.name,
        )  # fmt: skip
        draft.add(
            node, lambda: operator, [window], stores=[others] if unmatched is None else [others, shared],
            on_error=join.on_error, tolerates_null_keys=join.left,
        )  # fmt: skip

    add_side(LEFT, this, this_window, left, left_store, right_store)
    add_side(RIGHT, other, other_window, right, right_store, left_store)
    draft.add(merge, PassThrough, [this, other])
    return KStream(draft, merge, left._key, value_of(join.joiner, join.value))
