"""Aggregations by time windows, tumbling, hopping and unlimited (spec-runtime 3.2, 3.3, 3.7, 3.8).

A record is late for a window whose end is not after `observed - grace`, `observed` being the largest time that this operator
has seen. It may be late for its older windows and in time for the newer ones: each window that it misses is counted. Only
records without a key are dropped; a null value is given to the aggregator.

On close: each window once, when `observed - grace` has reached its end, by start and then by key. What has closed is given
out before the record that closed it is stored: storing it moves the store's own time, which could hide a window that is not
given out yet (Kafka Streams loses such windows).
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
from raystreams.operators.windows import TimeWindows, UnlimitedWindows
from raystreams.stores.serdes import Serde
from raystreams.stores.values import MAX_TIME, NO_HEADERS, ValueAndTimestamp, Windowed


class WindowView:
    """Looks rows of a windowed table up."""

    versioned = False

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, key: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
        """The row of a window."""
        row: ValueAndTimestamp[Any] | None = self._store.fetch(key.key, key.start)
        return row

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        """Windowed tables keep no versions."""
        raise TypeError("a windowed table keeps no versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAggregate:
    """Folds each record into its windows."""

    store: str
    windows: TimeWindows | UnlimitedWindows
    value: Serde[Any]
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    on_close: bool
    late_records_to: TopicSink | None
    sends_old: bool
    name: str
    cache: Cache | None = None

    def start(self, node: NodeRuntime) -> Process:
        failed, drop = node.failed, node.dropping_as(self.name)
        store = node.store(self.store)
        fetch, put, starts = store.fetch, store.put, self.windows.starts
        size, grace = self.windows.size, self.windows.grace
        initializer, aggregator, sends_old = self.initializer, self.aggregator, self.sends_old or self.cache is not None
        initial_is_old = self.cache is None
        check, late = Folds(self.value).check, late_output(node, self.late_records_to)
        observed = node.cell("observed", -1)
        emits = not self.on_close and not node.is_leaf
        forward = forwarding(node, self.cache, sends_old=self.sends_old)
        closing = self._closing(node, store) if self.on_close else None

        def stored_or_initial(key: Any, start: int) -> Any:
            row = fetch(key, start)
            return initializer() if row is None else row.value

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                return drop("null key")
            if timestamp > observed.value:
                observed.value = timestamp
            close = observed.value - grace
            if closing is not None:
                closing(close, headers)
            in_time, windows = False, starts(timestamp)
            for start in windows:
                end = min(start + size, MAX_TIME)
                if end <= close:
                    drop("late")
                    continue
                in_time = True
                row = fetch(key, start)
                old = None
                try:
                    if row is None:
                        aggregate, time = initializer(), timestamp
                    else:
                        aggregate, time = row.value, max(timestamp, row.timestamp)
                    if sends_old and (initial_is_old or row is not None):
                        old = copy_for_old(aggregate, stored_or_initial, key, start)
                    result = aggregator(key, value, aggregate)
                    if result is None:
                        check(None, aggregate, stored_or_initial, key, start)
                except Exception as error:
                    return failed(error, key, value, timestamp, headers)
                put(key, result, time, start)
                if emits:
                    forward(Windowed(key, start, end), Change(result, old), time, headers)
            if windows and not in_time:
                late(key, value, timestamp, headers)

        return process

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the window store."""
        return WindowView(node.store(self.store))

    def _closing(self, node: NodeRuntime, store: Any) -> Callable[[int, Headers], None]:
        """The function that gives out the windows that have closed since it was called last."""
        windows, forward = self.windows, node.forward
        assert isinstance(windows, TimeWindows)
        size, advance = windows.size, windows.advance
        last = node.cell("last close", None)
        observed = node.cell("observed", -1)

        def give_out(first: int, upper: int, headers: Headers) -> None:
            with store.scan_time(first, upper) as rows:
                closed = list(rows)
            for window, row in closed:
                forward(Windowed(window.key, window.start, window.start + size), Change(row.value, None), row.timestamp, headers)

        def first_open() -> int:
            return 0 if last.value is None else max(0, last.value - size + 1)

        def closed(close: int, headers: Headers) -> None:
            upper = close - size
            if upper < 0 or (last.value is not None and upper // advance == (last.value - size) // advance):
                return
            if last.value is None or close > last.value:
                give_out(first_open(), upper, headers)
                last.value = close

        def passed(time: int) -> None:
            observed.value = max(observed.value, time)
            closed(observed.value - windows.grace, NO_HEADERS)

        def ended() -> None:
            give_out(first_open(), MAX_TIME - size, NO_HEADERS)

        node.lag = windows.grace + size
        node.when_time_passes(passed)
        node.when_ended(ended)
        return closed
