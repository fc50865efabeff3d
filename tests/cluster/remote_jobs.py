"""A job with stores of all kinds, and a directory whose tasks are called in this process: remote reads without Ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raystreams.cluster.partitioned_store import PartitionedStore
from raystreams.cluster.remote_requests import Ask
from raystreams.cluster.remote_store import RemoteStore
from raystreams.cluster.task_reads import ReadRequest, ReadResponse, TaskReads
from raystreams.stores.builders import StoreBuilder, Stores
from raystreams.stores.values import Windowed

from raystreams import Materialized, Record, StreamsBuilder, Topic, Topology, TopologyTestDriver


@dataclass
class Order:
    item: str
    amount: int
    note: str = ""


SEGMENT = 50
KEYED: dict[str, Any] = {"key": str, "value": int}
WINDOWED: dict[str, Any] = {"retention": 100_000, "segment_interval": SEGMENT, **KEYED}
KINDS: list[StoreBuilder[Any]] = [
    Stores.key_value("kv", **KEYED),
    Stores.timestamped_key_value("tkv", key=tuple[str, int], value=Order),
    Stores.versioned("versions", history_retention=100_000, **KEYED),
    Stores.window("windows", size=10, **WINDOWED),
    Stores.timestamped_window("twindows", size=10, **WINDOWED),
    Stores.window("duplicates", size=10, retain_duplicates=True, **WINDOWED),
    Stores.window("closing", size=10, time_first=True, **WINDOWED),
    Stores.session("sessions", **WINDOWED),
    Stores.session("ending", time_first=True, **WINDOWED),
]
TABLE = Materialized.key_value("table", key=str, value=Order)
GLOBAL = Materialized.key_value("everywhere", key=str, value=str)


HANDLES = {builder.name: builder for builder in KINDS}
KEYS = [f"key{number}" for number in range(12)]
"""The keys of the rows; the last one has none."""


class Everything:
    """Puts each record into all stores."""

    def init(self, context: Any) -> None:
        self._stores = [context.store(builder.name) for builder in KINDS]

    def process(self, record: Record[str, int]) -> None:
        key, value, at = record.key, record.value, record.timestamp
        kv, tkv, versions, windows, twindows, duplicates, closing, sessions, ending = self._stores
        kv.put(key, value)
        tkv.put((key, value % 3), Order(key, value), at)
        versions.put(key, value, at)
        windows.put(key, value, at // 10 * 10)
        twindows.put(key, value, at, at // 10 * 10)
        duplicates.put(key, value, at // 10 * 10)
        closing.put(key, value, at // 10 * 10)
        for store in (sessions, ending):
            store.put(Windowed(key, at, at + value % 40), value)


def topology() -> Topology:
    builder = StreamsBuilder()
    builder.stream(Topic("in", key=str, value=int)).process(Everything, stores=KINDS)
    builder.table(Topic("orders", key=str, value=Order), materialized=TABLE)
    builder.global_table(Topic("shared", key=str, value=str), materialized=GLOBAL)
    return builder.build()


class Tasks:
    """A directory of the tasks of a driver. `sent` notes `(partition, request)`; `before` may raise instead of them."""

    job = "job"

    def __init__(self, partitions: int = 3, state_dir: Path | None = None, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.driver = TopologyTestDriver(topology(), partitions=partitions, state_dir=state_dir)
        self.reads = [
            TaskReads(self.driver.topology, lambda t=task: t.database, partitions=partitions, clock=clock)  # type: ignore[misc]  # bound now
            for task in self.driver._tasks
        ]
        self.sent: list[tuple[int, ReadRequest]] = []
        self.before: Callable[[int, ReadRequest], None] = lambda partition, request: None
        self.refreshed = 0
        self.on_refresh: Callable[[], None] = lambda: None
        self.running = True
        self.standby_reads: list[TaskReads] = []

    def fill(self, count: int = 60) -> None:
        orders = self.driver.input_topic("orders")
        shared = self.driver.input_topic("shared")
        source = self.driver.input_topic("in")
        for number in range(count):
            source.send(number, key=f"key{number * 7 % 11}", timestamp=1000 + number * 13 % 400)
            orders.send(Order(f"item{number}", number), key=f"order{number % 20}", timestamp=number)
            shared.send(f"text{number}", key=f"name{number % 9}", timestamp=number)

    # ---- the directory

    def owners(self, partition: int | None) -> Sequence[Ask]:
        if not self.running:
            return ()
        return [self._ask(n, reads) for n, reads in enumerate(self.reads) if partition in (None, n)]

    def standbys(self, partition: int | None) -> Sequence[Ask]:
        return [self._ask(-1 - n, reads) for n, reads in enumerate(self.standby_reads) if partition in (None, n)]

    def refresh(self) -> None:
        self.refreshed += 1
        self.on_refresh()

    def _ask(self, partition: int, reads: TaskReads) -> Ask:
        def ask(request: ReadRequest) -> Future[ReadResponse]:
            future: Future[ReadResponse] = Future()
            try:
                self.sent.append((partition, request))
                self.before(partition, request)
                future.set_result(reads.read(request))
            except Exception as error:
                future.set_exception(error)
            return future

        return ask

    # ---- stores

    def remote(self, handle: Any, **options: Any) -> Any:
        return RemoteStore(self, handle, **{"page": 2, "timeout": 0.2, **options})

    def embedded(self, name: str) -> Any:
        """What a job in this process gives to read, as `RunningJob.store` does."""
        builder = self.driver.topology.stores[name]
        tasks = self.driver._tasks[:1] if name in self.driver.topology.global_stores else self.driver._tasks
        return PartitionedStore(builder, lambda: [builder.read_committed(task.database) for task in tasks])

    @property
    def open_scans(self) -> int:
        return sum(reads.open_scans for reads in self.reads)

    def close(self) -> None:
        for reads in self.reads:
            reads.close()
        self.driver.close()


def listed(found: Any) -> Any:
    """The rows of a scan; a value as it is."""
    if not hasattr(found, "__next__"):
        return found
    with found as rows:
        return list(rows)
