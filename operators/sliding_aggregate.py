"""Aggregations by sliding windows (KIP-450, spec-runtime 3.4): one window for each distinct set of records within `d`.

A record r has a *left* window `[r-d, r]`, which it closes, and a *right* window `[r+1, r+1+d]`, which exists if a later record
lies in it. Windows are kept by start, with the largest time of their records, which is what the algorithm reads:

    newest start first, from r+1 down to r-2d:
        start = r+1        the own right window is there
        start <= r < end   holds r: aggregate it in; the first one met is what a missing right window is copied from
        end = r            the own left window; what it held before tells the record before r
        end < r            tells the record before r, and what a new left window begins with

Records with r < d ("early") share the window `[0, d]` in place of left windows of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.cached import Cache, forwarding
from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.folding import Folds, copy_for_old
from raystreams.operators.graph import TopicSink
from raystreams.operators.late import late_output
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.window_aggregate import WindowView
from raystreams.operators.windows import SlidingWindows
from raystreams.stores.serdes import Serde
from raystreams.stores.values import MAX_TIME, NO_HEADERS, Windowed


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingAggregate:
    """Folds each record into the sliding windows that it belongs to."""

    store: str
    windows: SlidingWindows
    value: Serde[Any]
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    on_close: bool
    late_records_to: TopicSink | None
    sends_old: bool
    name: str
    cache: Cache | None = None

    def start(self, node: NodeRuntime) -> Process:
        drop, failed = node.dropping_as(self.name), node.failed
        windows = _Windows(self, node)
        late = late_output(node, self.late_records_to)
        observed = node.cell("observed", -1)
        difference, grace = self.windows.time_difference, self.windows.grace
        closing = self._closing(node) if self.on_close else None

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                return drop("null key")
            if value is None:
                return drop("null value")
            if timestamp > observed.value:
                observed.value = timestamp
            close = observed.value - grace
            if timestamp + difference < close:
                drop("late")
                return late(key, value, timestamp, headers)
            update = _Update(windows, key, value, timestamp, headers, close)
            try:
                if timestamp < difference:
                    update.early()
                else:
                    if closing is not None:
                        closing(close, headers)
                    update.process()
            except _UserError as error:
                return failed(error.cause, key, value, timestamp, headers)
            if not update.taken:
                late(key, value, timestamp, headers)

        return process

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the window store."""
        return WindowView(node.store(self.store))

    def _closing(self, node: NodeRuntime) -> Callable[[int, Headers], None]:
        store, forward, difference = node.store(self.store), node.forward, self.windows.time_difference
        grace = self.windows.grace
        last = node.cell("last close", None)
        observed = node.cell("observed", -1)

        def give_out(upper: int, headers: Headers) -> None:
            lower = 0 if last.value is None else max(0, last.value - difference)
            with store.scan_time(lower, upper) as rows:
                closed = list(rows)
            for window, row in closed:
                key = Windowed(window.key, window.start, window.start + difference)
                forward(key, Change(row.value, None), row.timestamp, headers)

        def closed(close: int, headers: Headers) -> None:
            upper = close - difference - 1
            if upper >= 0 and (last.value is None or close > last.value):
                give_out(upper, headers)
                last.value = close

        def passed(time: int) -> None:
            observed.value = max(observed.value, time)
            closed(observed.value - grace, NO_HEADERS)

        node.lag = grace + difference
        node.when_time_passes(passed)
        node.when_ended(lambda: give_out(MAX_TIME - difference, NO_HEADERS))
        return closed


class _UserError(Exception):
    """What a user's function raised, on its way out of a record's windows."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class _Windows:
    """The windows of an operator: its store, its functions, what follows it."""

    def __init__(self, operator: SlidingAggregate, node: NodeRuntime) -> None:
        self.store, self.difference = node.store(operator.store), operator.windows.time_difference
        self.initializer, self.aggregator = operator.initializer, operator.aggregator
        self.sends_old, self.initial_is_old = operator.sends_old or operator.cache is not None, operator.cache is None
        self.forward = forwarding(node, operator.cache, sends_old=operator.sends_old)
        self.drop = node.dropping_as(operator.name)
        self.emits = not operator.on_close and not node.is_leaf
        self.check = Folds(operator.value).check
        encode, decode = operator.value.encode, operator.value.decode
        self.copy: Callable[[Any], Any] = lambda value: decode(encode(value))

    def between(self, key: Any, first: int, last: int, *, backward: bool) -> list[tuple[int, Any]]:
        """The (start, row) of a key's windows that start in a range."""
        fetch = self.store.backward_fetch if backward else self.store.fetch
        with fetch(key, first, last) as rows:
            return list(rows)

    def put(self, key: Any, value: Any, old: Any, time: int, start: int, headers: Headers) -> None:
        """Store a window and pass the change on."""
        self.store.put(key, value, time, start)
        if self.emits:
            self.forward(Windowed(key, start, start + self.difference), Change(value, old), time, headers)


class _Update:
    """One record on its way through its key's windows."""

    def __init__(self, windows: _Windows, key: Any, value: Any, timestamp: int, headers: Headers, close: int) -> None:
        self.windows, self.key, self.value, self.timestamp = windows, key, value, timestamp
        self.headers, self.close = headers, close
        self.taken = False
        """Whether some window took it."""

    def process(self) -> None:
        """A record with a left window of its own."""
        windows, time = self.windows, self.timestamp
        d = windows.difference
        starts: set[int] = set()
        previous: int | None = None
        right_source: Any = None
        left_source: Any = None
        has_left = has_right = False
        for start, row in windows.between(self.key, max(0, time - 2 * d), time + 1, backward=True):
            starts.add(start)
            end = start + d
            if start == time + 1:
                has_right = True
            elif end > time:
                if right_source is None:
                    right_source = row
                self._fold(start, row)
            elif end == time:
                has_left = True
                if row.timestamp < time:
                    previous = row.timestamp
                self._fold(start, row)
                if previous is None:
                    return
            else:
                left_source, previous = row, row.timestamp
                break
            if has_left:
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + d >= time:
            self._fold(previous + 1, None)
        if not has_left:
            joins = left_source is not None and left_source.timestamp >= time - d
            self._fold(time - d, left_source if joins else None, creates=True)
        if not has_right and right_source is not None and right_source.timestamp > time:
            self._copy(right_source, time + 1)

    def early(self) -> None:
        """A record that shares the window [0, d]."""
        windows, time = self.windows, self.timestamp
        combined: Any = None
        right_source: Any = None
        previous: int | None = None
        has_right = False
        starts: set[int] = set()
        for start, row in windows.between(self.key, 0, time + 1, backward=False):
            starts.add(start)
            if start == 0:
                combined = row
                if row.timestamp < time:
                    previous = row.timestamp
            elif start <= time:
                right_source = row
                self._fold(start, row)
            else:
                has_right = True
        if right_source is None and combined is not None and combined.timestamp > time:
            right_source = combined
        if not has_right and right_source is not None and right_source.timestamp > time:
            self._copy(right_source, time + 1)
        if previous is not None and previous + 1 not in starts and previous + 1 + windows.difference >= time:
            self._fold(previous + 1, None)
        self._fold(0, combined)

    def _fold(self, start: int, row: Any, *, creates: bool = False) -> None:
        """Aggregate the record into the window at `start`, which begins with `row`; `creates`: as a window of its own."""
        windows, time = self.windows, self.timestamp
        if start + windows.difference < self.close:
            windows.drop("late")
            return
        self.taken = True
        try:
            # The row is kept as it was: a right window may be copied from it.
            given = windows.initializer() if row is None else copy_for_old(row.value, windows.copy, row.value)
            old, is_new = None, creates or row is None
            if windows.sends_old and (windows.initial_is_old or not is_new):
                old = windows.initializer() if is_new else copy_for_old(given, self._before, row)
            result = windows.aggregator(self.key, self.value, given)
            if result is None:
                windows.check(None, given, self._before, row)
        except Exception as error:
            raise _UserError(error) from error
        windows.put(self.key, result, old, time if row is None else max(time, row.timestamp), start, self.headers)

    def _before(self, row: Any) -> Any:
        return self.windows.initializer() if row is None else row.value

    def _copy(self, row: Any, start: int) -> None:
        """Make the own right window: what its source held before this record."""
        self.windows.put(self.key, row.value, None, row.timestamp, start, self.headers)
