"""What goes out of a task: records for sinks, in batches that a commit makes durable and a sink writes after it.

A batch is kept as one row until every sink of its topic has written it. Its id and content stay the same, so a sink that
gets it again after a crash can truncate or ignore it (exactly once).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgpack
import msgspec
from raystreams.cluster.connectors.base import RecordColumns
from raystreams.cluster.rows import Rows
from raystreams.operators.graph import TopicSink
from raystreams.operators.record import Headers, Process
from raystreams.stores.plain import decode_plain, encode_plain
from raystreams.stores.serdes import Serde, key_serde, value_serde
from raystreams.stores.values import NO_HEADERS

if TYPE_CHECKING:
    from raystreams.cluster.task import TaskSettings

Output = tuple[Any, Any, int, Headers]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    """Committed records of one topic, for its sinks."""

    topic: str
    id: str
    sequence: int
    records: RecordColumns[Any, Any]


class _Buffer:
    def __init__(self, key: Serde[Any], value: Serde[Any], sequence: int) -> None:
        self.key, self.value, self.sequence = key, value, sequence
        self.records: list[Output] = []


class SinkOutputs:
    """The records of a task for its sinks, by topic."""

    def __init__(self, rows: Rows, batches: Rows, settings: TaskSettings, partition: int, partitions: int) -> None:
        self._rows, self._batches, self._durable = rows, batches, settings.durable_outputs
        self._name = f"{settings.job}/{partition}-of-{partitions}"
        self._buffers: dict[str, _Buffer] = {}
        self.written: dict[str, int] = {name[1]: count for name, count in rows.values("outputs")}
        """Records given to each topic's sinks so far."""

    def process(self, topic: str, sink: TopicSink) -> Process:
        """The function that takes a sink node's records."""
        append = self._buffer(topic, sink.key, sink.value).records

        def write(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            append.append((key, value, timestamp, headers))

        return write

    def dead_letter(self, topic: str, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Give out a record that failed."""
        serde = _Anything()
        self._buffer(topic, serde, serde).records.append((key, value, timestamp, headers))

    def _buffer(self, topic: str, key: Serde[Any], value: Serde[Any]) -> _Buffer:
        buffer = self._buffers.get(topic)
        if buffer is None:
            sequence = self._rows.get("sequence", topic, default=1)
            buffer = self._buffers[topic] = _Buffer(key, value, sequence)
        return buffer

    @property
    def waiting(self) -> int:
        """Records since the last commit."""
        return sum(len(buffer.records) for buffer in self._buffers.values())

    def draw(self) -> list[WrittenBatch]:
        """For a commit: one batch a topic that has new records."""
        batches = []
        for topic, buffer in self._buffers.items():
            if not buffer.records:
                continue
            records = buffer.records[:]
            buffer.records.clear()
            if self._durable:
                self._batches.put_data(topic, buffer.sequence, data=_encode(records, buffer.key, buffer.value))
            batches.append(self._batch(topic, buffer.sequence, records))
            buffer.sequence += 1
            self.written[topic] = self.written.get(topic, 0) + len(records)
            self._rows.put("sequence", topic, value=buffer.sequence)
            self._rows.put("outputs", topic, value=self.written[topic])
        return batches

    def pending(self, topic: str, key: Any = None, value: Any = None) -> list[WrittenBatch]:
        """Batches of a topic that were committed and not written, oldest first (after a restart)."""
        buffer = self._buffers.get(topic)
        serdes = (buffer.key, buffer.value) if buffer else (key_serde(key), value_serde(value))
        return [
            self._batch(topic, name[1], _decode(data, *serdes)) for name, data in self._batches.scan() if name[0] == topic
        ]

    def topics(self) -> list[str]:
        """Topics with batches that are not written."""
        return sorted({name[0] for name, _ in self._batches.scan()})

    def position(self, topic: str, sink: int) -> Any:
        """What a sink's writer returned last, as committed."""
        return self._rows.get("sink", topic, sink)

    def was_written(self, topic: str, sink: int, sinks: int, sequence: int, position: Any) -> None:
        """A sink has written a batch; the batch is forgotten when all `sinks` of the topic have."""
        self._rows.put("sink", topic, sink, value=position)
        self._rows.put("written", topic, sink, value=sequence)
        done = min(self.written_up_to(topic, other) for other in range(sinks))
        if done >= sequence:
            self._batches.delete(topic, sequence)

    def forget(self, topic: str, sequence: int) -> None:
        """Delete a batch that nothing has to write."""
        self._batches.delete(topic, sequence)

    def written_up_to(self, topic: str, sink: int) -> int:
        """The sequence of the last batch that a sink has written."""
        return int(self._rows.get("written", topic, sink, default=0))

    def _batch(self, topic: str, sequence: int, records: Sequence[Output]) -> WrittenBatch:
        keys, values, timestamps, headers = zip(*records, strict=True)
        plain = headers if any(headers) else None
        columns: RecordColumns[Any, Any] = RecordColumns(keys, values, timestamps, plain)
        return WrittenBatch(topic=topic, id=f"{self._name}/{topic}/{sequence}", sequence=sequence, records=columns)


class _Anything:
    """Dead letters are of any type: plain data as it is, objects as their fields, anything else as text."""

    description = "anything"

    def encode(self, value: Any) -> bytes:
        try:
            return encode_plain(value)
        except Exception:
            return encode_plain(msgspec.to_builtins(value, enc_hook=repr))

    def decode(self, data: bytes) -> Any:
        return decode_plain(data)


def _encode(records: list[Output], key: Serde[Any], value: Serde[Any]) -> bytes:
    """A batch as columns: one call for each column of plain data, one a record for typed values."""
    keys, values, timestamps, headers = zip(*records, strict=True)
    plain_headers = None if not any(headers) else [dict(h) if h else None for h in headers]
    data: bytes = msgpack.packb([_column(keys, key), _column(values, value), timestamps, plain_headers])
    return data


def _decode(data: bytes, key: Serde[Any], value: Serde[Any]) -> list[Output]:
    keys, values, timestamps, headers = msgpack.unpackb(data)
    columns = (_uncolumn(keys, key), _uncolumn(values, value), timestamps, headers or [None] * len(timestamps))
    return [(k, v, t, h or NO_HEADERS) for k, v, t, h in zip(*columns, strict=True)]


def _column(cells: Sequence[Any], serde: Serde[Any]) -> bytes | list[bytes | None]:
    if getattr(serde, "description", None) in _PLAIN:
        return encode_plain(list(cells))
    encode = serde.encode
    return [None if cell is None else encode(cell) for cell in cells]


def _uncolumn(column: bytes | list[bytes | None], serde: Serde[Any]) -> list[Any]:
    if isinstance(column, bytes):
        cells: list[Any] = decode_plain(column)
        return cells
    decode = serde.decode
    return [None if cell is None else decode(cell) for cell in column]


_PLAIN = ("plain", "anything", "str", "int", "bytes")
"""Types whose values are plain data of exactly that type, so that a whole column can be written as such."""
