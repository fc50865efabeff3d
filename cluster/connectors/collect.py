"""Records kept in memory, to look at them when a job is done; under the same name, the aggregation that keeps all values.

What a killed process had collected is gone with it: a job with a state directory that is started again collects from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, overload

from raystreams.cluster.connectors.base import Position, SinkBatch
from raystreams.cluster.connectors.row_writer import RowColumns
from raystreams.cluster.errors import ConfigError, SinkError
from raystreams.operators.aggregations import Collected
from raystreams.operators.record import Record
from raystreams.stores.serdes import Serde
from typing_extensions import TypeVar

if TYPE_CHECKING:
    import pyarrow

V = TypeVar("V", contravariant=True, default=Any)
N = TypeVar("N", default=Any)


class Collect(Collected[V, N], Generic[V, N]):
    """As a sink, keeps records: iterate over it, in the order of each partition, partitions one after another.

    In `apply(...)`, `Collect()` is the list of a group's values, and `Collect(of)` that of what `of` makes of each.
    """

    @overload
    def __init__(self: Collect[Any, Any], max_records: int = 10_000_000) -> None: ...
    @overload
    def __init__(self, max_records: Callable[[V], N | None], /, *, value: type[N] | Serde[N] | None = None) -> None: ...
    def __init__(
        self, max_records: int | Callable[[Any], Any] = 10_000_000, *, value: type[Any] | Serde[Any] | None = None
    ) -> None:
        limit = max_records if isinstance(max_records, int) else 10_000_000
        if limit < 0:
            raise ValueError(f"max_records must not be negative, got {limit}")
        super().__init__(_itself if isinstance(max_records, int) else max_records, value=value)
        self.max_records, self._given = limit, (max_records,)
        self._parts: dict[int, _Part] = {}

    def open(self, partition: int, position: Position | None) -> CollectWriter:
        """Go on after a number of records; those after it are forgotten."""
        committed = position or 0
        part = self._parts.get(partition)
        if part is None or part.first > committed:
            part = self._parts[partition] = _Part(committed)
        del part.records[committed - part.first :]
        return CollectWriter(self, part)

    def __iter__(self) -> Iterator[Record[Any, Any]]:
        for _, part in sorted(self._parts.items()):
            yield from part.records

    def __len__(self) -> int:
        return sum(len(part.records) for part in self._parts.values())

    def __reduce__(self) -> tuple[Any, ...]:
        return Collect, self._given

    def to_arrow(self, *, key: str | Sequence[str] | None = "key", timestamp: str | None = "timestamp") -> pyarrow.Table:
        """Return the records as a pyarrow table: the value's fields, and the key and time under these names."""
        try:
            import pyarrow
        except ModuleNotFoundError as error:
            raise ConfigError("to_arrow needs pyarrow: pip install 'raystreams[parquet]'") from error
        columns = RowColumns(key, timestamp)
        return pyarrow.Table.from_pylist([columns.row(record.key, record.value, record.timestamp) for record in self])

    def to_pandas(self, *, key: str | Sequence[str] | None = "key", timestamp: str | None = "timestamp") -> Any:
        """Return the records as a pandas frame: the value's fields, and the key and time under these names."""
        try:
            pandas = import_module("pandas")
        except ModuleNotFoundError as error:
            raise ConfigError("to_pandas needs pandas: pip install pandas") from error
        columns = RowColumns(key, timestamp)
        return pandas.DataFrame([columns.row(record.key, record.value, record.timestamp) for record in self])


def _itself(value: Any) -> Any:
    return value


class _Part:
    """The records of a partition from the number `first` on."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.records: list[Record[Any, Any]] = []


class CollectWriter:
    """Adds a partition's records."""

    def __init__(self, sink: Collect, part: _Part) -> None:
        self._sink, self._part = sink, part

    def write(self, batch: SinkBatch[Any, Any]) -> Position:
        """Keep the records; the position is their number."""
        room = self._sink.max_records - len(self._sink)
        if len(batch.records) > room:
            raise SinkError(
                f"Collect is full: it keeps {self._sink.max_records} records. Raise max_records, or write to files"
            )
        self._part.records.extend(batch.records)
        return self._part.first + len(self._part.records)

    def close(self) -> None:
        """Keep what was collected."""
