"""What goes out of a task: records for sinks, in batches that a commit makes durable and a sink writes after it.

A batch is kept as one row until every sink of its topic has written it. Its id and content stay the same, so a sink that
gets it again after a crash can truncate or ignore it (exactly once).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    from raystreams.cluster.task_settings import TaskSettings

Output = tuple[Any, Any, int, Headers]
Failed = Callable[[Exception, Any, Any, int, Headers], None]
"""What becomes of a record that can't be written: fail, skip or dead-letter, as its node's `on_error` says."""

_COLUMNS, _MIXED = 0, 1
"""The forms of a batch's row: [0, keys, values, timestamps, headers], [1, [(kind, key, value, timestamp, headers) ...]]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    """Committed records of one topic, for its sinks."""

    topic: str
    id: str
    sequence: int
    records: RecordColumns[Any, Any]


class _Kind:
    """How one node writes a topic: its types, and what becomes of a record that is not of them."""

    def __init__(self, key: Serde[Any], value: Serde[Any], failed: Failed) -> None:
        self.key, self.value, self.failed = key, value, failed

    def encode(self, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        return None if key is None else self.key.encode(key), None if value is None else self.value.encode(value)

    def decode(self, key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
        return None if key is None else self.key.decode(key), None if value is None else self.value.decode(value)

    def equals(self, other: _Kind) -> bool:
        return bool(_described(self.key) == _described(other.key) and _described(self.value) == _described(other.value))


class _Buffer:
    """The records of a topic since the last commit. Almost always they are all of the first kind."""

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.records: list[Output] = []
        self.kinds: list[_Kind] = []
        self.others: dict[int, int] = {}
        """The kind of each record that is not of the first one, by its index; -1: a dead letter."""

    def kind(self, number: int) -> _Kind:
        return _DEAD_LETTER if number < 0 else self.kinds[number]

    def dead_letter(self, record: Output) -> None:
        self.others[len(self.records)] = -1
        self.records.append(record)

    def process(self, kind: _Kind) -> Process:
        number = next((n for n, known in enumerate(self.kinds) if known.equals(kind)), len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(kind)
        records, others = self.records, self.others
        append = records.append

        def write(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            append((key, value, timestamp, headers))

        def write_other(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            others[len(records)] = number
            append((key, value, timestamp, headers))

        return write_other if number else write

    def draw(self) -> tuple[list[Output], bytes]:
        """The records and their bytes, without those that are not of their types and are left out."""
        try:
            data = self._encode()
        except Exception:
            self._leave_out_failing()
            data = self._encode() if self.records else b""
        records = self.records[:]
        self.records.clear()
        self.others.clear()
        return records, data

    def _encode(self) -> bytes:
        if self.others:
            rows = []
            for index, (key, value, timestamp, given) in enumerate(self.records):
                number = self.others.get(index, 0)
                rows.append((number, *self.kind(number).encode(key, value), timestamp, dict(given) or None))
            mixed: bytes = msgpack.packb([_MIXED, rows])
            return mixed
        keys, values, timestamps, headers = zip(*self.records, strict=True)
        kind = self.kinds[0]
        plain_headers = [dict(h) or None for h in headers] if any(headers) else None
        data: bytes = msgpack.packb([_COLUMNS, _column(keys, kind.key), _column(values, kind.value), timestamps, plain_headers])
        return data

    def _leave_out_failing(self) -> None:
        good: list[Output] = []
        others: dict[int, int] = {}
        for index, record in enumerate(self.records):
            number = self.others.get(index, 0)
            key, value, timestamp, headers = record
            try:
                self.kind(number).encode(key, value)
            except Exception as error:
                self.kind(number).failed(error, key, value, timestamp, headers)
                continue
            if number:
                others[len(good)] = number
            good.append(record)
        self.records[:] = good
        self.others.clear()
        self.others.update(others)

    def decode(self, data: bytes) -> list[Output]:
        form, *parts = msgpack.unpackb(data, strict_map_key=False)
        if form == _MIXED:
            return [(*self.kind(n).decode(k, v), t, h or NO_HEADERS) for n, k, v, t, h in parts[0]]
        keys, values, timestamps, headers = parts
        kind = self.kinds[0]
        columns = (_uncolumn(keys, kind.key), _uncolumn(values, kind.value), timestamps, headers or [None] * len(timestamps))
        return [(k, v, t, h or NO_HEADERS) for k, v, t, h in zip(*columns, strict=True)]


class SinkOutputs:
    """The records of a task for its sinks, by topic."""

    def __init__(self, rows: Rows, batches: Rows, settings: TaskSettings, partition: int, partitions: int) -> None:
        self._rows, self._batches, self._durable = rows, batches, settings.durable_outputs
        self._keep = settings.keep_outputs
        self._name = f"{settings.job}/{partition}-of-{partitions}"
        self._buffers: dict[str, _Buffer] = {}
        self.written: dict[str, int] = {name[1]: count for name, count in rows.values("outputs")}
        """Records given to each topic's sinks so far."""

    def process(self, topic: str, sink: TopicSink, failed: Failed) -> Process:
        """The function that takes a sink node's records."""
        return self._buffer(topic).process(_Kind(sink.key, sink.value, failed))

    def dead_letter(self, topic: str, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Give out a record that failed."""
        self._buffer(topic).dead_letter((key, value, timestamp, headers))

    def _buffer(self, topic: str) -> _Buffer:
        buffer = self._buffers.get(topic)
        if buffer is None:
            buffer = self._buffers[topic] = _Buffer(self._rows.get("sequence", topic, default=1))
        return buffer

    @property
    def waiting(self) -> int:
        """Records since the last commit."""
        return sum(len(buffer.records) for buffer in self._buffers.values())

    def draw(self) -> list[WrittenBatch]:
        """For a commit: one batch a topic that has new records."""
        batches: list[WrittenBatch] = []
        # A record that fails here may become a dead letter: again, until nothing is left.
        while any(buffer.records for buffer in self._buffers.values()):
            batches += [self._draw(topic, buffer) for topic, buffer in list(self._buffers.items()) if buffer.records]
        return [batch for batch in batches if batch.records]

    def _draw(self, topic: str, buffer: _Buffer) -> WrittenBatch:
        records, data = buffer.draw()
        batch = self._batch(topic, buffer.sequence, records)
        if not records:
            return batch
        if self._durable:
            self._batches.put_data(topic, buffer.sequence, data=data)
        else:
            batch = self._batch(topic, buffer.sequence, buffer.decode(data))
        buffer.sequence += 1
        self.written[topic] = self.written.get(topic, 0) + len(records)
        self._rows.put("sequence", topic, value=buffer.sequence)
        self._rows.put("outputs", topic, value=self.written[topic])
        return batch

    def pending(self, topic: str, key: Any = None, value: Any = None) -> list[WrittenBatch]:
        """Batches of a topic that were committed and not written, oldest first (after a restart)."""
        buffer = self._buffer(topic)
        if not buffer.kinds:
            buffer.process(_Kind(key_serde(key), value_serde(value), _never_failed))
        written = self._written_by_all(topic) if topic in self._keep else 0
        rows = [(name[1], data) for name, data in self._batches.scan() if name[0] == topic and name[1] > written]
        return [self._batch(topic, sequence, buffer.decode(data)) for sequence, data in rows]

    def decode(self, topic: str, data: bytes) -> list[Output]:
        """The records of a batch's row."""
        return self._buffer(topic).decode(data)

    def _written_by_all(self, topic: str) -> int:
        return min((count for name, count in self._rows.values("written", topic)), default=0)

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
        if done >= sequence and topic not in self._keep:
            self._batches.delete(topic, sequence)

    def forget(self, topic: str, sequence: int) -> None:
        """Delete a batch that nothing has to write."""
        self._batches.delete(topic, sequence)

    def written_up_to(self, topic: str, sink: int) -> int:
        """The sequence of the last batch that a sink has written."""
        return int(self._rows.get("written", topic, sink, default=0))

    def _batch(self, topic: str, sequence: int, records: Sequence[Output]) -> WrittenBatch:
        keys, values, timestamps, headers = zip(*records, strict=True) if records else ((), (), (), ())
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


def _never_failed(error: Exception, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    raise error


_DEAD_LETTER = _Kind(_Anything(), _Anything(), _never_failed)


def _described(serde: Serde[Any]) -> Any:
    return getattr(serde, "description", serde)


def _column(cells: Sequence[Any], serde: Serde[Any]) -> bytes | list[bytes | None]:
    """A column of plain data by one call, which only takes what is plain; one call a cell for other types."""
    types = _PLAIN.get(_described(serde), _NO_TYPES)
    if types is None or (types and types.issuperset(map(type, cells))):
        return encode_plain(list(cells))
    encode = serde.encode
    return [None if cell is None else encode(cell) for cell in cells]


def _uncolumn(column: bytes | list[bytes | None], serde: Serde[Any]) -> list[Any]:
    if isinstance(column, bytes):
        cells: list[Any] = decode_plain(column)
        return cells
    decode = serde.decode
    return [None if cell is None else decode(cell) for cell in column]


_NO_TYPES: frozenset[type] = frozenset()
_PLAIN: dict[Any, frozenset[type] | None] = {
    "plain": None,
    **{kind.__name__: frozenset((kind, type(None))) for kind in (str, int, float, bytes, bool)},
}
"""Serdes whose columns are plain data, with the types that they take; None: all that is plain."""
