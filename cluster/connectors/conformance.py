"""Does a source or a sink keep its promises? For connectors of users, and for our own.

    check_source(source)               splits are stable; reading again gives the same; a position is plain data, and
                                       reading goes on exactly after it, for every record; stopping in the middle is safe
    check_sink(sink, read_back)        batches are kept in order, once: those that come again after a crash change nothing

Failures are AssertionErrors that say which promise was broken, with the record or batch. A source without an end is read until
it waits, or up to `limit` records.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from raystreams.cluster.connectors.base import (
    BadRow,
    ColumnBatch,
    Position,
    Sink,
    SinkBatch,
    Source,
    SourceRecord,
    Wait,
)
from raystreams.cluster.errors import RetryLater
from raystreams.operators.record import Record
from raystreams.stores.values import NO_HEADERS, to_milliseconds

_RETRIES = 5


def records_of(batch: Sequence[SourceRecord[Any, Any] | BadRow] | ColumnBatch) -> Iterator[SourceRecord[Any, Any] | BadRow]:
    """Yield the records and bad rows of a batch of either form, in their order."""
    if not isinstance(batch, ColumnBatch):
        yield from batch
        return
    bad = list(batch.bad)
    headers = batch.headers or [NO_HEADERS] * len(batch)
    columns = zip(batch.keys, batch.values, batch.timestamps, batch.positions, headers, strict=True)
    for index, record in enumerate(columns):
        while bad and bad[0][0] <= index:
            yield bad.pop(0)[1]
        yield SourceRecord(*record)
    yield from (row for _, row in bad)


def check_source(source: Source[Any, Any], *, limit: int = 300) -> None:
    """Check a source's promises on its first `limit` records of each split; AssertionError says which one it breaks."""
    splits = list(source.splits())
    _expect(all(isinstance(split, str) for split in splits), f"splits() must give texts, and gives {splits}")
    _expect(len(set(splits)) == len(splits), f"splits() gives one id twice: {splits}")
    _expect(list(source.splits()) == splits, "splits() must give the same ids in the same order each time")
    try:
        travelled = pickle.loads(pickle.dumps(source))
    except Exception as error:
        raise AssertionError(f"a source travels to its tasks by pickle, and this one can't be pickled: {error}") from error
    _expect(list(travelled.splits()) == splits, "an unpickled source must give the same splits")
    for split in splits:
        _check_split(source, split, limit)


def _check_split(source: Source[Any, Any], split: str, limit: int) -> None:
    records = _read(source, split, None, limit)
    again = _read(source, split, None, limit)
    _expect(_same(records, again), f"split {split!r}, read twice from its beginning, gives different records")
    for record in records:
        position = record.position
        if position is None:
            continue
        _expect(
            _is_plain(position),
            f"split {split!r}: the position {position!r} is no plain data; use numbers, texts, lists and dicts of them",
        )
    step = max(1, len(records) // 20)
    for index in sorted({*range(0, len(records), step), *range(min(3, len(records))), *range(len(records))[-3:]}):
        position = records[index].position
        if position is None:
            continue
        rest = _read(source, split, _travelled(position), limit - index - 1)
        expected = records[index + 1 : index + 1 + len(rest)] if len(records) >= limit else records[index + 1 :]
        if not _same(rest, expected):
            raise AssertionError(
                f"split {split!r}: read from the position {position!r} of record {index}, it must go on AFTER that record, with "
                f"{_first(expected)}, and gives {_first(rest)} ({len(rest)} records, and {len(expected)} should follow)"
            )
    reading = iter(source.read(split, None))
    next(reading, None)
    close = getattr(reading, "close", None)
    _expect(close is not None, f"split {split!r}: read() must be a generator, which can be closed where it stands")
    if close is not None:
        close()


def _read(source: Source[Any, Any], split: str, position: Position, limit: int) -> list[SourceRecord[Any, Any] | BadRow]:
    """Up to `limit` records, or to the end or the first wait after any."""
    found: list[SourceRecord[Any, Any] | BadRow] = []
    watermark: int | None = None
    reading = iter(source.read(split, position))
    try:
        for batch in reading:
            if len(found) >= limit:
                break
            if isinstance(batch, Wait):
                watermark = _watermark(batch, watermark, split)
                break
            for record in records_of(batch):
                found.append(record)
                _check_record(record, watermark, split)
    finally:
        if hasattr(reading, "close"):
            reading.close()
    return found[: max(limit, 0)]


def _watermark(wait: Wait, before: int | None, split: str) -> int | None:
    _expect(wait.seconds >= 0, f"split {split!r}: Wait of {wait.seconds} seconds")
    if wait.watermark is None:
        return before
    watermark = to_milliseconds(wait.watermark)
    _expect(before is None or watermark >= before, f"split {split!r}: the watermark falls from {before} to {watermark}")
    return watermark


def _check_record(record: SourceRecord[Any, Any] | BadRow, watermark: int | None, split: str) -> None:
    if isinstance(record, BadRow):
        return
    _expect(isinstance(record, SourceRecord), f"split {split!r} yields {record!r}, which is no SourceRecord")
    try:
        timestamp = to_milliseconds(record.timestamp)
    except (ValueError, TypeError) as error:
        raise AssertionError(f"split {split!r}: the record {record!r} has no good timestamp: {error}") from error
    _expect(
        watermark is None or timestamp >= watermark, f"split {split!r}: {record!r} comes after the watermark {watermark}"
    )


def _same(one: Sequence[SourceRecord[Any, Any] | BadRow], other: Sequence[SourceRecord[Any, Any] | BadRow]) -> bool:
    def plain(record: SourceRecord[Any, Any] | BadRow) -> tuple[Any, ...]:
        if isinstance(record, BadRow):
            return (record.file, record.line, record.text)
        return (record.key, record.value, record.timestamp, dict(record.headers))

    return list(map(plain, one)) == list(map(plain, other))


def _first(records: Sequence[Any]) -> str:
    return repr(records[0]) if records else "nothing"


def _is_plain(position: Position) -> bool:
    try:
        return bool(_travelled(position) == position)
    except (TypeError, ValueError, msgspec.MsgspecError):
        return False


def _travelled(position: Position) -> Position:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(position))


def check_sink(
    sink: Sink[Any, Any],
    read_back: Callable[[], Iterable[Any]],
    *,
    records: Sequence[Record[Any, Any]] | None = None,
    partition: int = 0,
) -> None:
    """Write batches with crashes in between; `read_back` returns what the sink has, an item a record.

    `records` are what is written, at least six; without them the values are `{"n": 0}`, `{"n": 1}` ...
    """
    given = list(records) if records is not None else [Record(f"k{n}", {"n": n}, 1000 * n) for n in range(9)]
    _expect(len(given) >= 6, "give at least six records")
    third = len(given) // 3
    parts = (given[:third], given[third : 2 * third], given[2 * third :])
    batches = [SinkBatch(f"check-{partition}-{n}", n, part) for n, part in enumerate(parts, 1)]
    before = list(read_back())

    positions = _written(sink, partition, None, batches[:2])
    two = _new(read_back, before)
    _expect(len(two) == 2 * third, f"{2 * third} records were written, and read_back gives {len(two)}")

    position = positions[0]
    _expect(_is_plain(position), f"the position {position!r} is no plain data; use numbers, texts, lists and dicts of them")
    _written(sink, partition, _travelled(position), batches[1:2])
    _expect_same(_new(read_back, before), two, "after a crash the second batch came again, with the same id")

    _written(sink, partition, _travelled(positions[1]), batches[2:])
    three = _new(read_back, before)
    _expect(three[: len(two)] == two, "the third batch must come behind the others")
    _expect(len(three) == len(given), f"{len(given)} records were written, and read_back gives {len(three)}")

    if position is None or positions[1] is None:
        _written(sink, partition, None, batches)
        _expect_same(_new(read_back, before), three, "all batches came again, with the same ids")
        return
    _written(sink, partition, _travelled(positions[1]), batches[2:])
    _expect_same(_new(read_back, before), three, "after a crash the third batch came again, with the same id")
    _written(sink, partition, None, batches)
    _expect_same(_new(read_back, before), three, "the job began again, and wrote the same batches")


def _new(read_back: Callable[[], Iterable[Any]], before: Sequence[Any]) -> list[Any]:
    found = list(read_back())
    return found[len(before) :] if before and found[: len(before)] == before else found


def _written(sink: Sink[Any, Any], partition: int, position: Position, batches: Sequence[SinkBatch[Any, Any]]) -> list[Position]:
    """Open the sink, write and close it; return the position after each batch."""
    writer = sink.open(partition, position)
    try:
        return [_patiently(writer.write, batch) for batch in batches]
    finally:
        writer.close()


def _patiently(write: Callable[[SinkBatch[Any, Any]], Position], batch: SinkBatch[Any, Any]) -> Position:
    for _ in range(_RETRIES):
        try:
            return write(batch)
        except RetryLater as later:
            time.sleep(later.seconds)
    return write(batch)


def _expect_same(found: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    _expect(
        list(found) == list(expected),
        f"{what}: this must change nothing, but read_back gives {len(found)} records in place of {len(expected)}. Truncate to "
        f"the position that open() gets, or ignore the ids of batches that are known",
    )


def _expect(holds: bool, what: str) -> None:
    # No `assert`: these checks must hold where Python runs with -O, too.
    if not holds:
        raise AssertionError(what)
