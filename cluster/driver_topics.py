"""The handles of a test driver's topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic

from raystreams.operators.options import Topic
from raystreams.operators.record import Record
from raystreams.stores.serdes import key_serde, value_serde
from raystreams.stores.values import Time
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from raystreams.cluster.testing import TopologyTestDriver

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)


class InputTopic(Generic[K, V]):
    """Sends to a topic. It stays good over crashes."""

    def __init__(self, driver: TopologyTestDriver, name: str) -> None:
        self._driver, self.name = driver, name

    def send(
        self, value: V | None, *, key: K | None = None, timestamp: Time | None = None,
        headers: Mapping[str, bytes] | None = None,
    ) -> None:
        """Send a record and process it to the end; without a timestamp it has the driver's wall-clock time."""
        self._driver._send(self.name, key, value, timestamp, headers, raw=False)

    def send_raw(
        self, value: bytes | None, *, key: bytes | None = None, timestamp: Time | None = None,
        headers: Mapping[str, bytes] | None = None,
    ) -> None:
        """Send bytes as they are: what can't be decoded goes where the source's `on_error` says."""
        self._driver._send(self.name, key, value, timestamp, headers, raw=True)


class OutputTopic(Generic[K, V]):
    """Reads what was committed to a topic, in the order produced. It stays good over crashes."""

    def __init__(self, driver: TopologyTestDriver, topic: str | Topic[K, V]) -> None:
        self._driver = driver
        self.name = topic.name if isinstance(topic, Topic) else topic
        self._key = key_serde(topic.key) if isinstance(topic, Topic) and topic.key is not None else None
        self._value = value_serde(topic.value) if isinstance(topic, Topic) and topic.value is not None else None

    @property
    def _queue(self) -> list[Record[Any, Any]]:
        return self._driver._outputs.setdefault(self.name, [])

    def read(self) -> Record[K, V]:
        """The next record; LookupError if there is none."""
        if not self._queue:
            raise LookupError(f"nothing more was written to {self.name!r}")
        return self._typed(self._queue.pop(0))

    def read_all(self) -> list[Record[K, V]]:
        """All records that were not read yet."""
        records = [self._typed(record) for record in self._queue]
        self._queue.clear()
        return records

    def read_values(self) -> list[V]:
        """Their values."""
        return [record.value for record in self.read_all()]

    def read_table(self) -> dict[K, V]:
        """The last value of each key, without deleted ones; ValueError for a null key."""
        table: dict[K, V] = {}
        for record in self.read_all():
            if record.key is None:
                raise ValueError(f"a record of {self.name!r} has no key, so it is no row of a table: {record!r}")
            if record.value is None:
                table.pop(record.key, None)
            else:
                table[record.key] = record.value
        return table

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Read what was not read yet, one after another."""
        while not self.is_empty():
            yield self.read()

    @property
    def queue_size(self) -> int:
        """How many records wait to be read."""
        return len(self._queue)

    def is_empty(self) -> bool:
        """Whether nothing waits to be read."""
        return not self._queue

    def _typed(self, record: Record[Any, Any]) -> Record[K, V]:
        key, value = record.key, record.value
        if self._key is not None and key is not None:
            key = self._key.decode(self._key.encode(key))
        if self._value is not None and value is not None:
            value = self._value.decode(self._value.encode(value))
        return Record(key, value, record.timestamp, record.headers)
