"""Aggregations by sessions (spec-runtime 3.5): records of a key that follow one another within the gap.

A record merges with every session that ends at or after `t - gap` and starts at or before `t + gap`. What was merged is deleted
first, with tombstones; then the merged session is stored. It is late if the MERGED session ended before
`observed - grace - gap`: an old record that touches a live session counts. A null value is given to the aggregator.

The merge begins at the initial value, also for a single session. Updates carry no headers and no old value; their time is
the session's end (as in Kafka Streams).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.cached import Cache, forwarding
from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.folding import IMMUTABLE, Folds
from raystreams.operators.graph import TopicSink
from raystreams.operators.late import late_output
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.windows import SessionWindows
from raystreams.stores.serdes import Serde
from raystreams.stores.values import MAX_TIME, NO_HEADERS, ValueAndTimestamp, Windowed


class SessionView:
    """Looks rows of a table of sessions up; a session's time is its end."""

    versioned = False

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, key: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
        """The row of a session."""
        value = self._store.fetch_session(key.key, key.start, key.end)
        return None if value is None else ValueAndTimestamp(value, key.end)

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        """Tables of sessions keep no versions."""
        raise TypeError("a table of sessions keeps no versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAggregate:
    """Folds each record into its session."""

    store: str
    windows: SessionWindows
    value: Serde[Any]
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    merger: Callable[[Any, Any, Any], Any]
    on_close: bool
    late_records_to: TopicSink | None
    sends_old: bool
    name: str
    cache: Cache | None = None

    def start(self, node: NodeRuntime) -> Process:
        failed, drop = node.failed, node.dropping_as(self.name)
        forward = forwarding(node, self.cache, sends_old=self.sends_old)
        store = node.store(self.store)
        find, put, remove = store.find_sessions, store.put, store.remove
        gap, grace = self.windows.inactivity_gap, self.windows.grace
        initializer, aggregator, merger = self.initializer, self.aggregator, self.merger
        sends_old, is_cached = self.sends_old or self.cache is not None, self.cache is not None
        check, late = Folds(self.value).check, late_output(node, self.late_records_to)
        observed = node.cell("observed", -1)
        emits = not self.on_close and not node.is_leaf
        closing = self._closing(node, store) if self.on_close else None

        def sessions_at(key: Any, timestamp: int) -> list[tuple[Windowed[Any], Any]]:
            with find(key, timestamp - gap, timestamp + gap) as rows:
                return list(rows)

        def merged(key: Any, timestamp: int, found: list[tuple[Windowed[Any], Any]]) -> Any:
            aggregate = initializer()
            for index, (_, session) in enumerate(found):
                result = merger(key, aggregate, session)
                if result is None:
                    check(None, aggregate, merged_again, key, timestamp, index)
                aggregate = result
            return aggregate

        def merged_again(key: Any, timestamp: int, sessions: int | None = None) -> Any:
            return merged(key, timestamp, sessions_at(key, timestamp)[:sessions])

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                return drop("null key")
            if timestamp > observed.value:
                observed.value = timestamp
            close = observed.value - grace - gap
            if closing is not None:
                closing(close, headers)
            found = sessions_at(key, timestamp)
            start = min([timestamp, *(session.start for session, _ in found)])
            end = max([timestamp, *(session.end for session, _ in found)])
            if end < close:
                drop("late")
                return late(key, value, timestamp, headers)
            try:
                aggregate = merged(key, timestamp, found)
                result = aggregator(key, value, aggregate)
                if result is None:
                    check(None, aggregate, merged_again, key, timestamp)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            if found and sends_old and type(found[0][1]) not in IMMUTABLE:
                found = sessions_at(key, timestamp)  # what the functions got may be changed
            old = None
            if start == end == timestamp:
                old = found[0][1] if found and is_cached else None
            else:
                for session, before in found:
                    remove(session)
                    if emits:
                        forward(session, Change(None, before if sends_old else None), session.end, NO_HEADERS)
            session = Windowed(key, start, end)
            put(session, result)
            if emits:
                forward(session, Change(result, old), end, NO_HEADERS)

        return process

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the session store."""
        return SessionView(node.store(self.store))

    def _closing(self, node: NodeRuntime, store: Any) -> Callable[[int, Headers], None]:
        """The function that gives out the sessions that have closed since it was called last."""
        forward, gap, grace = node.forward, self.windows.inactivity_gap, self.windows.grace
        last = node.cell("last close", None)
        observed = node.cell("observed", -1)

        def give_out(upper: int, headers: Headers) -> None:
            with store.scan_ends(max(0, last.value or 0), upper) as rows:
                # By end, start and key, as Kafka Streams' time-ordered store has them; the rows come by end, key and start.
                closed = sorted(rows, key=lambda row: (row[0].end, row[0].start))
            for session, value in closed:
                forward(session, Change(value, None), session.end, headers)

        def closed(close: int, headers: Headers) -> None:
            upper = close - 1
            if upper >= max(0, last.value or 0) and (last.value is None or close > last.value):
                give_out(upper, headers)
                last.value = close

        def passed(time: int) -> None:
            observed.value = max(observed.value, time)
            closed(observed.value - grace - gap, NO_HEADERS)

        node.lag = grace + gap
        node.when_time_passes(passed)
        node.when_ended(lambda: give_out(MAX_TIME, NO_HEADERS))
        return closed
