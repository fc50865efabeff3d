"""Sources and sinks of this process for tests of jobs: they last over runs, as files do, and fail when they are told to."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from raystreams import BadRow, ColumnBatch, Record, SinkBatch, SourceRecord, Wait

Item = Sequence[SourceRecord[Any, Any] | BadRow] | ColumnBatch | Wait


class Lists:
    """A source of lists of records, one a split. `items` gives what else a split yields after them."""

    def __init__(
        self,
        *splits: Sequence[Record[Any, Any]],
        batch: int = 7,
        disorder: int = 0,
        then: Callable[[], Iterator[Item]] | None = None,
        fails: Exception | None = None,
    ) -> None:
        self.lists, self.batch, self.disorder, self.then, self.fails = splits, batch, disorder, then, fails

    def splits(self) -> Sequence[str]:
        return [str(number) for number in range(len(self.lists))]

    def read(self, split: str, position: Any) -> Iterator[Item]:
        records = self.lists[int(split)]
        for start in range(position or 0, len(records), self.batch):
            part = records[start : start + self.batch]
            yield [SourceRecord(r.key, r.value, r.timestamp, start + n + 1, r.headers) for n, r in enumerate(part)]
        if self.fails is not None:
            raise self.fails
        if self.then is not None:
            yield from self.then()


class Kept:
    """A sink that keeps what was written over runs, as a file: it goes on after the position that it is given."""

    def __init__(self) -> None:
        self.records: dict[int, list[Record[Any, Any]]] = {}
        self.ids: dict[tuple[int, str], list[Record[Any, Any]]] = {}
        self.opened: list[tuple[int, Any]] = []
        self.before_write: Callable[[SinkBatch[Any, Any]], None] = lambda batch: None
        self.after_write: Callable[[SinkBatch[Any, Any]], None] = lambda batch: None

    def open(self, partition: int, position: Any) -> KeptWriter:
        self.opened.append((partition, position))
        del self.records.setdefault(partition, [])[position or 0 :]
        return KeptWriter(self, partition)

    def all(self) -> list[Record[Any, Any]]:
        return [record for _, records in sorted(self.records.items()) for record in records]


class KeptWriter:
    def __init__(self, sink: Kept, partition: int) -> None:
        self._sink, self._partition = sink, partition

    def write(self, batch: SinkBatch[Any, Any]) -> Any:
        self._sink.before_write(batch)
        records = list(batch.records)
        known = self._sink.ids.setdefault((self._partition, batch.id), records)
        assert known == records, f"{batch.id} came again with another content"
        self._sink.records[self._partition] += records
        self._sink.after_write(batch)
        return len(self._sink.records[self._partition])

    def close(self) -> None:
        return None


def numbers(count: int, *, keys: str = "abcde", start: int = 0) -> list[Record[str, int]]:
    """Records whose value is their number and whose time rises."""
    return [Record(keys[n % len(keys)], n, start + n) for n in range(count)]


class Live:
    """A source that never ends by itself: `send` gives it records, `watermark` moves its time, `end` ends it."""

    def __init__(self, *, disorder: int = 0) -> None:
        self.disorder = disorder
        self._items: queue.Queue[Item | None] = queue.Queue()
        self._sent = 0

    def send(self, *records: Record[Any, Any]) -> None:
        first = self._sent
        self._sent += len(records)
        self._items.put([SourceRecord(r.key, r.value, r.timestamp, first + n) for n, r in enumerate(records)])

    def watermark(self, time: int) -> None:
        self._items.put(Wait(0, watermark=time))

    def end(self) -> None:
        self._items.put(None)

    def splits(self) -> Sequence[str]:
        return ["live"]

    def read(self, split: str, position: Any) -> Iterator[Item]:
        while True:
            try:
                item = self._items.get(timeout=0.005)
            except queue.Empty:
                yield Wait(0)
                continue
            if item is None:
                return
            yield item
