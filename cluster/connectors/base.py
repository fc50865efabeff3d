"""What a source and a sink are: two small protocols, and the records and batches that cross them.

    source  splits() -> ids;  read(split, position) yields batches, and continues AFTER the position
    sink    open(partition, position) -> writer;  write(batch) -> position

A position is plain data and belongs to ONE record, since commits fall inside batches. It is committed with the state, so
state and input are always of the same moment; the position that `write` returns is committed with the outbox in the same
way. After a crash the batches after a sink's position come again, with the same id and content: a sink truncates to
its position (files), or ignores ids that it knows (an idempotency key).

Record objects cost about a microsecond each. So a source may yield a `ColumnBatch` in place of a list of records, and the
records of a `SinkBatch` may be `RecordColumns`, a sequence that makes a `Record` only when one is asked for.

A row that can't be read is data too: a source yields a `BadRow` in its place and goes on. The runner fails, counts or
dead-letters it, as the source's `on_error` says, in the order of the rows; so a crash doesn't change what is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, overload, runtime_checkable

import msgspec
from raystreams.operators.options import OnError, Topic, check_on_error
from raystreams.operators.record import Headers, Record
from raystreams.stores.values import NO_HEADERS, Duration, Time, duration_milliseconds
from typing_extensions import TypeVar

K_co = TypeVar("K_co", covariant=True, default=Any)
V_co = TypeVar("V_co", covariant=True, default=Any)
K_contra = TypeVar("K_contra", contravariant=True, default=Any)
V_contra = TypeVar("V_contra", contravariant=True, default=Any)

Position = Any
"""Plain data: what JSON and msgpack can carry."""


class SourceRecord(msgspec.Struct, Generic[K_co, V_co], frozen=True):
    """A record as a source gives it. A position of None can't be read again: it is allowed with at_least_once only."""

    key: K_co
    value: V_co
    timestamp: Time
    position: Position
    headers: Headers = NO_HEADERS


class BadRow(msgspec.Struct, frozen=True):
    """A row that is no record: where it stands, what it says, what is wrong. Its position is passed like a record's."""

    position: Position
    file: str
    line: int
    text: str
    reason: str


class Wait(msgspec.Struct, frozen=True):
    """Nothing now: read on after so many seconds. Nothing earlier than the watermark will follow, if there is one."""

    seconds: float
    watermark: Time | None = None


class ColumnBatch(msgspec.Struct, frozen=True):
    """Records as columns of one length. `positions` may be any sequence, such as a `range`: a first position and a step.

    `bad` has `(index, row)`: the row stood before the record of that index. `bytes_read` says how much of the split, as it
    lies on disk, has been read with the end of this batch.
    """

    keys: Sequence[Any]
    values: Sequence[Any]
    timestamps: Sequence[int]
    positions: Sequence[Position]
    headers: Sequence[Headers] | None = None
    bad: Sequence[tuple[int, BadRow]] = ()
    bytes_read: int | None = None

    def __len__(self) -> int:
        return len(self.keys)


class CountedPositions(Sequence[Position]):
    """The positions of the rows of a block: `[*mark, first]`, `[*mark, first + 1]` ... made only when one is asked for."""

    __slots__ = ("_mark", "_numbers")

    def __init__(self, mark: Sequence[Any], numbers: Sequence[int]) -> None:
        self._mark, self._numbers = mark, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Position: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Position]: ...
    def __getitem__(self, index: int | slice) -> Position:
        """The position of the row at an index."""
        if isinstance(index, slice):
            return CountedPositions(self._mark, self._numbers[index])
        return [*self._mark, self._numbers[index]]


SourceBatch = Sequence[SourceRecord[K_co, V_co] | BadRow] | ColumnBatch


class Source(Protocol[K_co, V_co]):
    """Where a topic's records come from. Holds settings only, opens nothing in `__init__`, and travels to tasks by pickle."""

    def splits(self) -> Sequence[str]:
        """Return the ids of the splits, the same ones each time; each is read in order by one task."""
        ...

    def read(
        self, split: str, position: Position | None
    ) -> Iterator[Sequence[SourceRecord[K_co, V_co] | BadRow] | ColumnBatch | Wait]:
        """Yield what follows the position (None: from the beginning), and return at the end.

        A generator on a thread of its own: it may block, and yields Wait rather than sleep. Stopping closes it at its next
        yield, so its with-blocks clean up.
        """
        ...


@runtime_checkable
class ForTopic(Protocol):
    """A source or sink of rows, which has the types of the topic that it is bound to."""

    def for_topic(self, topic: Topic[Any, Any]) -> Any:
        """Return this source or sink, with keys and values of the topic's types."""
        ...


@runtime_checkable
class SizedSource(Protocol):
    """A source that knows how large its splits are, so that progress has a percentage."""

    def size(self, split: str) -> int | None:
        """Return the bytes of a split as it lies on disk, None if unknown."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a source's records are taken, whatever it reads. A source has these as attributes, or a job file adds them.

    `disorder`: how late records may be, for tables. `idle_after`: a split at its end and quiet for so long follows the
    wall clock, less `disorder`. `partitioned`: records already are in the split of their key's partition, by our hash.
    `on_error`: what becomes of bad rows; None is the job's default. `timestamped`: False if records have no time (they get 0).
    """

    disorder: int = 0
    idle_after: int | None = None
    partitioned: bool = False
    on_error: OnError | None = None
    timestamped: bool = True


def reading_of(source: Source[Any, Any]) -> Reading:
    """Return how a source wants its records taken; what it doesn't say is the default."""
    idle_after: Duration | None = getattr(source, "idle_after", None)
    disorder = duration_milliseconds(getattr(source, "disorder", 0), what="disorder")
    if disorder < 0:
        raise ValueError(f"disorder must not be negative, got {disorder} ms")
    return Reading(
        disorder=disorder,
        idle_after=None if idle_after is None else duration_milliseconds(idle_after, what="idle_after"),
        partitioned=bool(getattr(source, "partitioned", False)),
        on_error=check_on_error(getattr(source, "on_error", None)),
        timestamped=getattr(source, "timestamp", "") is not None,
    )


class ReadAs:
    """A source whose records are taken as a job file says, since its own class has no such settings."""

    def __init__(self, source: Source[Any, Any], **settings: Any) -> None:
        self.source, self.settings = source, settings
        self.disorder: Duration = settings.get("disorder", 0)
        self.idle_after: Duration | None = settings.get("idle_after")
        self.partitioned: bool = settings.get("partitioned", False)
        self.on_error: OnError | None = settings.get("on_error")
        self.timestamp: Any = getattr(source, "timestamp", "")

    def splits(self) -> Sequence[str]:
        """Return the source's splits."""
        return self.source.splits()

    def read(
        self, split: str, position: Position | None
    ) -> Iterator[Sequence[SourceRecord[Any, Any] | BadRow] | ColumnBatch | Wait]:
        """Read the source."""
        return self.source.read(split, position)

    def size(self, split: str) -> int | None:
        """Return the size of a split, if the source knows it."""
        return self.source.size(split) if isinstance(self.source, SizedSource) else None

    def for_topic(self, topic: Topic[Any, Any]) -> ReadAs:
        """Return this, reading as the topic's types if the source can."""
        typed = self.source.for_topic(topic) if isinstance(self.source, ForTopic) else self.source
        return ReadAs(typed, **self.settings)


class RecordColumns(Sequence[Record[K_co, V_co]]):
    """Records as columns: a `Record` is made when one is asked for. `headers` None: no record has any."""

    __slots__ = ("headers", "keys", "timestamps", "values")

    def __init__(
        self,
        keys: Sequence[Any],
        values: Sequence[Any],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None = None,
    ) -> None:
        self.keys, self.values, self.timestamps, self.headers = keys, values, timestamps, headers

    @classmethod
    def of(cls, records: Sequence[Record[K_co, V_co]]) -> RecordColumns[K_co, V_co]:
        """Return records as columns, the same ones if they already are."""
        if isinstance(records, RecordColumns):
            return records
        return cls(
            [record.key for record in records],
            [record.value for record in records],
            [record.timestamp for record in records],
            [record.headers for record in records],
        )

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, index: int) -> Record[K_co, V_co]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record[K_co, V_co]]: ...
    def __getitem__(self, index: int | slice) -> Record[K_co, V_co] | Sequence[Record[K_co, V_co]]:
        """The record at an index."""
        if isinstance(index, slice):
            headers = None if self.headers is None else self.headers[index]
            return RecordColumns(self.keys[index], self.values[index], self.timestamps[index], headers)
        headers_of_one = NO_HEADERS if self.headers is None else self.headers[index]
        return Record(self.keys[index], self.values[index], self.timestamps[index], headers_of_one)

    def __repr__(self) -> str:
        return f"RecordColumns({list(self)!r})"


class SinkBatch(msgspec.Struct, Generic[K_co, V_co], frozen=True):
    """Committed records in order. `id` is unique over restarts and rescales; `sequence` counts a partition's batches."""

    id: str
    sequence: int
    records: Sequence[Record[K_co, V_co]]


class SinkWriter(Protocol[K_contra, V_contra]):
    """Writes one partition's records."""

    def write(self, batch: SinkBatch[K_contra, V_contra]) -> Position | None:
        """Make a batch durable and return the position after it; raise RetryLater(seconds) to be asked again."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


class Sink(Protocol[K_contra, V_contra]):
    """Where a topic's records go. Holds settings only, and travels to tasks by pickle."""

    def open(self, partition: int, position: Position | None) -> SinkWriter[K_contra, V_contra]:
        """Return a writer that goes on after a position: what `write` returned last, as committed; None at the beginning."""
        ...
