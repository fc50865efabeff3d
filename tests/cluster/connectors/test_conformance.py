"""check_source and check_sink find the mistakes that users make, and say which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from raystreams.cluster.connectors.base import BadRow, ColumnBatch, RecordColumns, SinkBatch, SourceRecord, Wait
from raystreams.cluster.connectors.conformance import check_sink, check_source, records_of
from raystreams.cluster.errors import RetryLater
from raystreams.operators.record import Record


class Numbers:
    """A correct source without an end, in batches of seven; subclasses break it."""

    def splits(self) -> Sequence[str]:
        return ["a", "b"]

    def read(self, split: str, position: Any) -> Iterator[Sequence[SourceRecord[Any, Any]] | Wait]:
        n = self.first(position)
        while True:
            yield [self.record(i) for i in range(n, n + 7)]
            n += 7

    def first(self, position: Any) -> int:
        return 0 if position is None else int(position) + 1

    def record(self, n: int) -> SourceRecord[Any, Any]:
        return SourceRecord(n, n, n, n)


class GivesTheRecordAgain(Numbers):
    def first(self, position: Any) -> int:
        return int(position or 0)


class PositionOfTheBatch(Numbers):
    def record(self, n: int) -> SourceRecord[Any, Any]:
        return SourceRecord(n, n, n, n - n % 7 + 6)


class ForgetsThePosition(Numbers):
    def first(self, position: Any) -> int:
        return 0


class TuplesAsPositions(Numbers):
    def record(self, n: int) -> SourceRecord[Any, Any]:
        return SourceRecord(n, n, n, (n,))


class NoTime(Numbers):
    def record(self, n: int) -> SourceRecord[Any, Any]:
        return SourceRecord(n, n, "soon", n)  # type: ignore[arg-type]  # that is the point


class OtherSplits(Numbers):
    def __init__(self) -> None:
        self.calls = 0

    def splits(self) -> Sequence[str]:
        self.calls += 1
        return [f"split {self.calls}"]


class OneIdTwice(Numbers):
    def splits(self) -> Sequence[str]:
        return ["a", "a"]


class HoldsAConnection(Numbers):
    def __init__(self) -> None:
        self.connection = (n for n in range(3))


class NoGenerator(Numbers):
    def read(self, split: str, position: Any) -> Iterator[Sequence[SourceRecord[Any, Any]] | Wait]:
        return iter([[self.record(i) for i in range(self.first(position), 20)]])


class ReadsTheClock(Numbers):
    count = 0

    def record(self, n: int) -> SourceRecord[Any, Any]:
        ReadsTheClock.count += 1
        return SourceRecord(n, ReadsTheClock.count, n, n)


class WaitsForThePast(Numbers):
    def read(self, split: str, position: Any) -> Iterator[Sequence[SourceRecord[Any, Any]] | Wait]:
        yield Wait(-1)


def test_a_correct_source_passes() -> None:
    check_source(Numbers(), limit=50)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (GivesTheRecordAgain(), "of record 0, it must go on AFTER that record"),
        (PositionOfTheBatch(), "of record 0, it must go on AFTER that record"),
        (ForgetsThePosition(), "of record 0, it must go on AFTER that record"),
        (TuplesAsPositions(), r"the position \(0,\) is no plain data"),
        (NoTime(), "has no good timestamp"),
        (OtherSplits(), r"splits\(\) must give the same ids"),
        (OneIdTwice(), r"splits\(\) gives one id twice"),
        (HoldsAConnection(), "can't be pickled"),
        (NoGenerator(), "must be a generator"),
        (WaitsForThePast(), "Wait of -1 seconds"),
        (ReadsTheClock(), "read twice from its beginning, gives different records"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_source_that_breaks_a_promise_is_told_which(source: Numbers, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_source(source, limit=50)


def test_records_of_a_column_batch_have_bad_rows_in_their_places() -> None:
    bad = [BadRow(n, "f", n, "x", "y") for n in (1, 2, 5)]
    batch = ColumnBatch(["a", "b"], [1, 2], [10, 20], range(3, 5), bad=[(0, bad[0]), (0, bad[1]), (2, bad[2])])

    assert [record.position for record in records_of(batch)] == [1, 2, 3, 4, 5]


class Lists:
    """A correct sink by truncation, over a list; subclasses break it."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def open(self, partition: int, position: Any) -> Lists:
        del self.rows[position or 0 :]
        return self

    def write(self, batch: SinkBatch[Any, Any]) -> Any:
        self.rows += [record.value for record in batch.records]
        return len(self.rows)

    def close(self) -> None: ...


class Appends(Lists):
    def open(self, partition: int, position: Any) -> Lists:
        return self


class LosesTheLast(Lists):
    def write(self, batch: SinkBatch[Any, Any]) -> Any:
        self.rows += [record.value for record in batch.records[:-1]]
        return len(self.rows)


class PutsInFront(Lists):
    def write(self, batch: SinkBatch[Any, Any]) -> Any:
        self.rows[:0] = [record.value for record in batch.records]
        return len(self.rows)


class PositionBefore(Lists):
    def write(self, batch: SinkBatch[Any, Any]) -> Any:
        before = len(self.rows)
        super().write(batch)
        return before


class Keys(Lists):
    """A correct sink by idempotency keys, which is busy at first."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[str] = set()
        self.busy = 2

    def open(self, partition: int, position: Any) -> Lists:
        return self

    def write(self, batch: SinkBatch[Any, Any]) -> None:
        if self.busy:
            self.busy -= 1
            raise RetryLater(0)
        if batch.id not in self.known:
            self.known.add(batch.id)
            self.rows += [record.value for record in batch.records]


class ForgetsKeys(Keys):
    def write(self, batch: SinkBatch[Any, Any]) -> None:
        self.rows += [record.value for record in batch.records]


def test_correct_sinks_pass() -> None:
    for sink in (Lists(), Keys()):
        check_sink(sink, lambda sink=sink: sink.rows)  # type: ignore[misc]  # bound now
        assert [row["n"] for row in sink.rows] == list(range(9))


def test_a_sink_may_have_records_of_others_already() -> None:
    sink = Keys()
    sink.rows = ["other"]
    check_sink(sink, lambda: sink.rows, records=[Record("k", n, n) for n in range(6)])

    assert sink.rows == ["other", 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("sink", "text"),
    [
        (Appends(), "after a crash the second batch came again, with the same id: this must change nothing"),
        (LosesTheLast(), "6 records were written, and read_back gives 4"),
        (PutsInFront(), "after a crash the second batch came again|the third batch must come behind"),
        (PositionBefore(), "after a crash the second batch came again"),
        (ForgetsKeys(), "after a crash the second batch came again, with the same id"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_sink_that_breaks_a_promise_is_told_which(sink: Lists, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_sink(sink, lambda: sink.rows)


def test_columns_and_records_are_the_same() -> None:
    columns = RecordColumns(["a", "b"], [1, 2], [10, 20], [{"h": b"x"}, {}])

    assert list(columns) == [Record("a", 1, 10, {"h": b"x"}), Record("b", 2, 20, {})]
    assert list(columns[1:]) == list(columns)[1:]
    assert list(RecordColumns.of(list(columns))) == list(columns)
    assert RecordColumns.of(columns) is columns
