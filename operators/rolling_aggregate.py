"""Rolling aggregation: one result for each record, over what its key had in the time before it (SQL's OVER).

    record at t, n-th to arrive  -->  joiner(value, aggregate over all of its key in (t - within, t] up to itself)

as `RANGE BETWEEN within PRECEDING AND CURRENT ROW`, except that records of one time count in their order of arrival. So that a
result can be given once and for all, records are taken in the order of (time, arrival): each waits `grace` for older ones,
and one that is older than `largest time seen - grace` is late: dropped, counted, and given to `late_records_to`.

    rows       key, time, arrival --> value        expire by themselves
    running    key, time of the last record --> aggregate as of then

With a subtractor the running aggregate loses what has left since the key's last record, and gains the new one; a key that was
quiet for `within` begins anew, so rows are needed for twice that. Without one, each result is folded from its rows. Where a
key's running aggregate is, and how old its oldest row, is remembered in memory only: it saves scans, and can be found again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.folding import copy_for_old
from raystreams.operators.grace_buffer import Waiting
from raystreams.operators.graph import TopicSink
from raystreams.operators.late import late_output
from raystreams.operators.record import Headers, Process
from raystreams.stores.serdes import KeySerde, Serde

Aggregator = Callable[[Any, Any, Any], Any]

_KNOWN = 50_000
"""Keys of which a task remembers where their running aggregate is; of others it is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingAggregate:
    """Gives out each record's value joined with the aggregate of its frame."""

    within: int
    waiting: Waiting | None
    rows: str
    running: str | None
    keeps_values: bool
    """Whether rows hold the values, or only that there was one."""
    value: Serde[Any]
    """Of the aggregate."""
    initializer: Callable[[], Any]
    aggregator: Aggregator
    subtractor: Aggregator | None
    joiner: Callable[[Any, Any], Any]
    late_records_to: TopicSink | None
    name: str
    key: KeySerde[Any]

    def start(self, node: NodeRuntime) -> Process:
        drop, keep_late = node.dropping_as(self.name), late_output(node, self.late_records_to)
        take = self._folded(node) if self.subtractor is None else self._running(node, self.subtractor)

        def late(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            drop("late")
            keep_late(key, value, timestamp, headers)

        in_order = self.waiting.start(node, take, late) if self.waiting is not None else _at_once(node, take, late)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                return drop("null key")
            if value is None:
                return drop("null value")
            in_order(key, value, timestamp, headers)

        return process

    def _result(self) -> Callable[[Any, Any], Any]:
        """The joiner, with a copy of the aggregate that it may change."""
        joiner, encode, decode = self.joiner, self.value.encode, self.value.decode
        return lambda value, aggregate: joiner(value, copy_for_old(aggregate, lambda: decode(encode(aggregate))))

    def _folded(self, node: NodeRuntime) -> Process:
        rows, within, forward, failed = node.store(self.rows), self.within, node.forward, node.failed
        initializer, aggregator, result = self.initializer, self.aggregator, self._result()

        def take(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            with rows.fetch(key, max(0, timestamp - within + 1), timestamp) as found:
                frame = [row for _, row in found]
            try:
                aggregate = initializer()
                for row in (*frame, value):
                    aggregate = _given_back(aggregator(key, row, aggregate))
                joined = result(value, aggregate)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            rows.put(key, value, timestamp)
            forward(key, joined, timestamp, headers)

        return take

    def _running(self, node: NodeRuntime, subtractor: Aggregator) -> Process:
        assert self.running is not None
        rows, running = node.store(self.rows), node.store(self.running)
        within, forward, failed, keeps_values = self.within, node.forward, node.failed, self.keeps_values
        initializer, aggregator, result, encode_key = self.initializer, self.aggregator, self._result(), self.key.encode
        known: dict[bytes, tuple[int, int]] = {}

        def last_of(key: Any, place: bytes, timestamp: int) -> tuple[int | None, int, Any]:
            """The time of the key's running aggregate, the oldest in it (0: not known), and itself."""
            since, oldest = known.get(place, (None, 0))
            if since is not None:
                aggregate = running.fetch(key, since) if since > timestamp - within else None
                return (None, 0, None) if aggregate is None else (since, oldest, aggregate)
            with running.backward_fetch(key, max(0, timestamp - within + 1), timestamp) as found:
                for since, aggregate in found:
                    return since, 0, aggregate
            return None, 0, None

        def without_those_gone(key: Any, aggregate: Any, since: int, timestamp: int) -> tuple[int, Any]:
            """The oldest that is left, and the aggregate."""
            with rows.fetch(key, max(0, since - within + 1), timestamp) as found:
                for time, row in found:
                    if time > timestamp - within:
                        return time, aggregate
                    aggregate = subtractor(key, row, aggregate)
                    if aggregate is None:  # what takes the last thing out may return None
                        aggregate = initializer()
            return timestamp, aggregate

        def take(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            place = encode_key(key)
            since, oldest, aggregate = last_of(key, place, timestamp)
            try:
                if since is None:
                    oldest, aggregate = timestamp, initializer()
                elif oldest <= timestamp - within:
                    oldest, aggregate = without_those_gone(key, aggregate, since, timestamp)
                aggregate = _given_back(aggregator(key, value, aggregate))
                joined = result(value, aggregate)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            if since is not None and since != timestamp:
                running.put(key, None, since)
            running.put(key, aggregate, timestamp)
            rows.put(key, value if keeps_values else 0, timestamp)
            if len(known) >= _KNOWN:
                known.clear()
            known[place] = timestamp, oldest
            forward(key, joined, timestamp, headers)

        return take


def _at_once(node: NodeRuntime, take: Process, late: Process) -> Process:
    """Without a grace nothing waits: what is older than the newest is late."""
    observed = node.cell("observed", -1)

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if timestamp < observed.value:
            return late(key, value, timestamp, headers)
        observed.value = timestamp
        take(key, value, timestamp, headers)

    def passed(time: int) -> None:
        observed.value = max(observed.value, time)

    node.when_time_passes(passed)
    return process


def _given_back(aggregate: Any) -> Any:
    if aggregate is None:
        raise TypeError("the aggregator of rolling(...) returned None: return the aggregate")
    return aggregate
