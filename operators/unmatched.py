"""Records of a left or outer join of streams that have met no other yet (spec-joins 7.3, 7.4).

    cell: time, side, key    ->    values, in the order in which they came

A record without a match is kept until its window is over: a left one until S > time + after + grace, a right one until
S > time + before + grace. If that is over already, its result comes out at once. A record that is met takes its whole cell
away: all its like have met the same one.

    closed cells come out      in the order of time; at one time the right side first, then key bytes, then arrival;
                               with their own time, and the headers of the record that let them out
    when                       a record with key and value comes whose time is S, before its own results; a watermark;
                               the end of both inputs

Here grace counts, and both sides are looked at (KAFKA-19536 and Kafka's gate over one side are not followed: DECISION).
Nothing comes out by real time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.joiners import own_first
from raystreams.operators.record import Headers
from raystreams.operators.windows import JoinWindows
from raystreams.stores.serdes import KeySerde, Serde
from raystreams.stores.values import MAX_TIME, NO_HEADERS

RIGHT, LEFT = 0, 1
"""The sides, in the order in which their records of one time come out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched:
    """The description: what both sides of the join share. Serdes are by side."""

    store: str
    merge: str
    preserved: tuple[bool, bool]
    windows: JoinWindows
    joiner: Callable[..., Any]
    with_key: bool
    keys: tuple[KeySerde, KeySerde]
    values: tuple[Serde[Any], Serde[Any]]


class UnmatchedRecords:
    """The unmatched records as one side of a running join uses them."""

    def __init__(self, of: Unmatched, node: NodeRuntime, side: int) -> None:
        self.clock = node.host.cell(of.merge, "stream time", -1)
        """S, which both sides share."""
        self.preserved = of.preserved[side]
        self._buffer = node.store(of.store)
        self._forward, self._failed = node.forward, node.failed
        self._joiners = [own_first(of.joiner, with_key=of.with_key, is_left=one == LEFT) for one in (RIGHT, LEFT)]
        self._keys, self._values = of.keys, of.values
        self._side, self._other = side, 1 - side
        self._waits = (of.windows.before + of.windows.grace, of.windows.after + of.windows.grace)
        self._wait, self._flushed = self._waits[side], -1
        node.lag = max(self._waits)
        if side == LEFT:
            node.when_time_passes(self._time_passes)
            # Its inputs are both streams: it ends when both have ended.
            node.execution.runtimes[of.merge].when_ended(lambda: self._let_out((MAX_TIME - 1, MAX_TIME - 1), NO_HEADERS))

    def keep(self, key: Any, value: Any, timestamp: int) -> bool:
        """Keep a record that has met none; False if its window is over, so that its result is due now."""
        if timestamp + self._wait < self.clock.value:
            return False
        side = self._side
        self._buffer.put(timestamp, side, self._keys[side].encode(key), self._values[side].encode(value))
        return True

    def meet(self, key: Any, timestamp: int) -> None:
        """A record of the other side was met: it and its like are no longer unmatched."""
        oldest = self._buffer.min_time(self._other)
        if oldest is not None and timestamp >= oldest:
            self._buffer.delete_cell(timestamp, self._other, self._keys[self._other].encode(key))

    def give(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Give out the result of a record of this side without a match."""
        self._give(self._side, key, value, timestamp, headers)

    def flush(self, now: int, headers: Headers) -> None:
        """Let out all cells that are closed when S is `now`."""
        if now == self._flushed:
            return
        self._flushed = now
        closed = (now - self._waits[RIGHT] - 1, now - self._waits[LEFT] - 1)
        right, left = self._buffer.min_time(RIGHT), self._buffer.min_time(LEFT)
        if (right is not None and right <= closed[RIGHT]) or (left is not None and left <= closed[LEFT]):
            self._let_out(closed, headers)

    def _let_out(self, up_to: tuple[int, int], headers: Headers) -> None:
        keys, values = self._keys, self._values
        for time, side, key, payload in self._buffer.evict(up_to):
            self._give(side, keys[side].decode(key), values[side].decode(payload), time, headers)

    def _give(self, side: int, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            result = self._joiners[side](key, value, None)
        except Exception as error:
            return self._failed(error, key, value, timestamp, headers)
        self._forward(key, result, timestamp, headers)

    def _time_passes(self, now: int) -> None:
        if now > self.clock.value:
            self.clock.value = now
            self.flush(now, NO_HEADERS)
