"""From a split reader's batches to a task's channel: times, the user's timestamp extractor, rows that are no records.

What is refused (a bad row, a negative time, an extractor that raised) is put into the channel in its place, and counted or
dead-lettered when its turn comes; so a crash in between does not count it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from raystreams.cluster.channels import Channel
from raystreams.cluster.connectors.base import BadRow, ColumnBatch, SourceRecord
from raystreams.cluster.errors import BadRowError, ConfigError
from raystreams.cluster.task import PartitionTask
from raystreams.operators.errors import ProcessingError
from raystreams.operators.graph import TopicSource
from raystreams.operators.options import DeadLetter, OnError
from raystreams.operators.record import Headers, Process, Record
from raystreams.stores.values import NO_HEADERS, to_milliseconds


@dataclass(frozen=True, slots=True)
class Refused:
    """Stands in a channel for a record that is left out."""

    reason: str
    error: Exception | None = None
    row: BadRow | None = None


class Feeder:
    """Feeds one split's channel."""

    def __init__(
        self, task: PartitionTask, channel: Channel, node: str, source: TopicSource, *, on_error: OnError, exactly_once: bool
    ) -> None:
        self._task, self._channel, self._node, self._source = task, channel, node, source
        self._on_error, self._exactly_once = on_error, exactly_once
        self._extractor = source.consumed.timestamp_extractor
        self._guarded = False
        self.offered = 0
        self.bytes_read: int | None = None

    @property
    def processed(self) -> int:
        """Records of this run that are processed."""
        return self.offered - len(self._channel.records)

    def feed(self, batch: ColumnBatch | Sequence[SourceRecord[Any, Any] | BadRow]) -> None:
        """Offer a batch to the task."""
        if not isinstance(batch, ColumnBatch):
            self._feed_records(batch)
            return
        if batch.bytes_read is not None:
            self.bytes_read = batch.bytes_read
        if self._exactly_once and len(batch) and batch.positions[0] is None:
            raise self._no_position()
        timestamps = batch.timestamps
        simple = not batch.bad and self._extractor is None and (not timestamps or min(timestamps) >= 0)
        if simple:
            headers = batch.headers or [NO_HEADERS] * len(batch)
            self._channel.offer(batch.keys, batch.values, timestamps, headers, batch.positions)
            self.offered += len(batch)
            return
        bad: dict[int, list[BadRow]] = {}
        for index, row in batch.bad:
            bad.setdefault(index, []).append(row)
        for index in range(len(batch) + 1):
            for row in bad.get(index, ()):
                self._refuse(Refused("bad row", row=row), row.position)
            if index < len(batch):
                headers_of_one = batch.headers[index] if batch.headers is not None else NO_HEADERS
                self._feed_one(
                    batch.keys[index], batch.values[index], timestamps[index], batch.positions[index], headers_of_one
                )

    def _feed_records(self, records: Iterable[SourceRecord[Any, Any] | BadRow]) -> None:
        for record in records:
            if isinstance(record, BadRow):
                self._refuse(Refused("bad row", row=record), record.position)
                continue
            if self._exactly_once and record.position is None:
                raise self._no_position()
            timestamp = to_milliseconds(record.timestamp)
            self._feed_one(record.key, record.value, timestamp, record.position, record.headers)

    def _feed_one(self, key: Any, value: Any, timestamp: int, position: Any, headers: Headers) -> None:
        if self._extractor is not None:
            try:
                extracted = self._extractor(Record(key, value, timestamp, headers), max(self._channel.top, -1))
                timestamp = to_milliseconds(extracted)
            except Exception as error:
                self._refuse(Refused("error", error=error), position)
                return
        if timestamp < 0:
            self._refuse(Refused("negative timestamp"), position)
            return
        self._channel.offer([key], [value], [timestamp], [headers], [position])
        self.offered += 1

    def _refuse(self, refused: Refused, position: Any) -> None:
        if not self._guarded:
            self._guarded = True
            self._channel.process = self._guard(self._channel.process)
        # Time -1 moves no clock; the order is that of the record before it.
        self._channel.offer([None], [refused], [-1], [NO_HEADERS], [position])
        self.offered += 1

    def _guard(self, process: Process) -> Process:
        def guarded(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if type(value) is Refused:
                self._leave_out(value)
            else:
                process(key, value, timestamp, headers)

        return guarded

    def _leave_out(self, refused: Refused) -> None:
        host, topic = self._task.host, self._channel.topic or ""
        row = refused.row
        if self._on_error == "fail" and refused.reason != "negative timestamp":
            if row is not None:
                raise BadRowError(topic, row.file, row.line, row.text, row.reason)
            raise ProcessingError(
                f"the timestamp extractor of {self._node}", topic, self._task.partition, self._channel.position, None, -1,
                f"{type(refused.error).__name__}: {refused.error}",
            ) from refused.error  # fmt: skip
        host.drop(self._node, refused.reason)
        if isinstance(self._on_error, DeadLetter) and row is not None:
            cause = {"error": row.reason.encode(), "file": row.file.encode(), "line": str(row.line).encode()}
            host.dead_letter(self._on_error.topic_name, None, row.text, max(self._channel.top, 0), cause)

    def _no_position(self) -> ConfigError:
        return ConfigError(
            f"the source of {self._channel.topic!r} gives records without a position, so they can't be read again after a "
            'crash. Give each record one, or set guarantee = "at_least_once"'
        )
