"""From what a source gives to records: decoding, timestamps, and what becomes of records that fail there.

A negative time, also from the user's extractor, means that the record is left out (spec-runtime 5.4). What can't be decoded
goes where the source's `on_error` says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raystreams.cluster.host import TaskHost
from raystreams.operators.graph import TopicSource
from raystreams.operators.options import DeadLetter
from raystreams.operators.record import Headers, Record
from raystreams.stores.errors import SerdeError
from raystreams.stores.values import to_milliseconds

RawRecord = tuple[Any, Any, int, Headers]


class Intake:
    """The way into a source node."""

    def __init__(self, node: str, source: TopicSource) -> None:
        self.node, self.source = node, source
        self.extractor: Callable[[Record[Any, Any], int], Any] | None = source.consumed.timestamp_extractor

    def encode(self, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        """The bytes of a key and a value; TypeError or SerdeError if they are not of the topic's types."""
        return (
            None if key is None else self.source.key.encode(key),
            None if value is None else self.source.value.encode(value),
        )

    def decode(
        self, host: TaskHost, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers
    ) -> RawRecord | None:
        """The record of encoded bytes; None if it can't be decoded and the source goes on without it."""
        try:
            return (
                None if key is None else self.source.key.decode(key),
                None if value is None else self.source.value.decode(value),
                timestamp,
                headers,
            )
        except Exception as error:
            self.failed(host, topic, key, value, timestamp, headers, error)
            return None

    def timestamp(self, host: TaskHost, record: RawRecord, partition_time: int) -> int | None:
        """The record's time; None if it is negative, which leaves the record out."""
        key, value, time, headers = record
        if self.extractor is not None:
            time = to_milliseconds(self.extractor(Record(key, value, time, headers), partition_time))
        if time < 0:
            host.drop(self.node, "negative timestamp")
            return None
        return time

    def failed(
        self, host: TaskHost, topic: str, key: Any, value: Any, timestamp: int, headers: Headers, error: Exception
    ) -> None:
        """A record could not be decoded: fail, skip or dead-letter."""
        on_error = self.source.consumed.on_error or host.on_error
        if on_error == "fail":
            raise SerdeError(f"a record of topic {topic!r} can't be decoded: {error}") from error
        host.drop(self.node, "undecodable")
        if isinstance(on_error, DeadLetter):
            cause = {"error": f"{type(error).__name__}: {error}".encode(), "topic": topic.encode()}
            host.dead_letter(on_error.topic_name, key, value, timestamp, {**headers, **cause})
