"""`TopologyTestDriver`: a topology on the test's own thread, in memory or on disk, with a clock that the test moves.

It is the task that runs in a job, under another shell: each record that is sent is processed to the end, over all
partitions, before `send` returns. What is sent on topics is encoded and decoded with their types, as in a job.

A crash loses everything that was not committed; the tasks open again what was, and what came after it is read again, in
its order. With `auto_commit=False` only `commit()` commits, and outputs are seen when they are committed.
Source: spec-runtime 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from raystreams.cluster.bindings import dead_letter_topics, name_of, written_topics
from raystreams.cluster.driver_topics import InputTopic, OutputTopic
from raystreams.cluster.intake import Intake
from raystreams.cluster.partitioned_store import PartitionedStore, store_name
from raystreams.cluster.partitioning import router
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_settings import TaskSettings
from raystreams.cluster.wiring import Split, upstream_first
from raystreams.operators.graph import TopicSource, Topology
from raystreams.operators.options import Materialized, OnError, Topic
from raystreams.operators.record import Headers, Record
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.database import TaskDatabase
from raystreams.stores.memory import MemoryEngine
from raystreams.stores.values import Duration, Time, duration_milliseconds, to_milliseconds
from typing_extensions import Self

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

class TopologyTestDriver:
    """Runs a topology for tests; a context manager. `dropped` counts records left out by (operator, reason)."""

    def __init__(
        self,
        topology: Topology,
        *,
        partitions: int = 1,
        wall_clock: Time = 0,
        state_dir: str | Path | None = None,
        auto_commit: bool = True,
        on_error: OnError = "fail",
    ) -> None:
        if partitions < 1:
            raise ValueError(f"partitions must be at least 1, got {partitions}")
        self.topology, self.partitions, self.auto_commit = topology, partitions, auto_commit
        self._settings = TaskSettings(job="test", on_error=on_error, durable_outputs=False, patient=False, tap=True)
        self._state_dir = None if state_dir is None else Path(state_dir)
        self._engines = [MemoryEngine() for _ in range(partitions)] if state_dir is None else []
        self._now = to_milliseconds(wall_clock)
        self._sources = {
            topic: (node.name, node.operator)
            for node in topology.sources
            if isinstance(node.operator, TopicSource)
            for topic in node.operator.topics
        }
        self._outputs: dict[str, list[Record[Any, Any]]] = {}
        self._since_commit: list[Callable[[], None]] = []
        self._sent: dict[tuple[str, int], int] = {}
        self._closed = False
        self._open()

    # ---- topics

    def input_topic(self, topic: str | Topic[Any, Any]) -> InputTopic[Any, Any]:
        """A handle to send to a topic that the topology reads; ValueError for any other."""
        name = name_of(topic)
        if name not in self._sources:
            self._subscribe(name)
        return InputTopic(self, name)

    def output_topic(self, topic: str | Topic[Any, Any]) -> OutputTopic[Any, Any]:
        """A handle to read what was written to a topic, also to an internal channel; ValueError if none has that name."""
        name = name_of(topic)
        written, dynamic = written_topics(self.topology)
        known = written | dead_letter_topics(self.topology, {}, self._settings.on_error) | set(self.topology.channels)
        if not dynamic and name not in known and name not in self._outputs:
            raise ValueError(f"the topology writes no topic {name!r}; it writes {', '.join(map(repr, sorted(known))) or 'none'}")
        return OutputTopic(self, topic)

    # ---- time and ends

    def advance_wall_clock(self, by: Duration) -> None:
        """Move the clock, and fire each punctuator that is due, once."""
        step = duration_milliseconds(by, what="by")
        if step < 0:
            raise ValueError(f"the wall clock can't go back ({step} ms)")
        self._now += step
        now = self._now
        self._act(lambda: [task.punctuate(now) for task in self._tasks])

    def advance_event_time(self, to: Time) -> None:
        """No later record will be older than `to`: windows and buffers close as if one of that time had come."""
        time = to_milliseconds(to)

        def pass_time() -> None:
            for sub in upstream_first(self.topology):
                for task in self._tasks:
                    task.time_passes(sub.id, time)
                self._settle()

        self._act(pass_time)

    def end_of_input(self) -> None:
        """All inputs end: windows and buffers close, whatever their time."""

        def end() -> None:
            for task in self._tasks:
                for channel in task.splits.values():
                    channel.end()
            self._settle()
            while sum(task.end_feedback() for task in self._tasks):
                self._settle()

        self._act(end)

    # ---- state

    def store(self, store: str | Materialized[Any, Any] | StoreBuilder[Any]) -> Any:
        """A store of all partitions to read, with what is not committed yet; None of its values is shared with it."""
        name = store_name(store, self.topology)
        return PartitionedStore(self.topology.stores[name], lambda: self._stores(name))

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """Records left out, by operator and reason."""
        total: dict[tuple[str, str], int] = {}
        for task in self._tasks:
            for reason, count in task.dropped.items():
                total[reason] = total.get(reason, 0) + count
        return total

    @property
    def metrics(self) -> CollectorRegistry:
        """What all tasks count, as Prometheus metrics (see `cluster/metrics.py`)."""
        from raystreams.cluster.metrics import metrics_of

        return metrics_of(lambda: self._tasks)

    # ---- commits and crashes

    def commit(self) -> None:
        """Commit all partitions; what they gave out can be read now."""
        while sum(task.give_out_held() for task in self._tasks):
            self._settle()
        for task in self._tasks:
            for batch in task.commit().batches:
                self._outputs.setdefault(batch.topic, []).extend(batch.records)
            for channel, sent in task.host.tapped.items():
                if channel not in task.outputs.written:
                    self._outputs.setdefault(channel, []).extend(Record(k, v, t, h) for k, v, t, h in sent)
                sent.clear()
        self._since_commit.clear()

    def crash(self) -> None:
        """Lose what was not committed, open again what was, and read the rest again in the order in which it came."""
        for task in self._tasks:
            task.database.discard()
            task.database.close()
        self._open()
        for action in self._since_commit:
            action()
            self._settle()

    def close(self) -> None:
        """Stop, and close the stores; what was not committed is lost."""
        if not self._closed:
            self._closed = True
            for task in self._tasks:
                task.execution.close()
                task.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, t: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    # ---- inside

    def _open(self) -> None:
        splits = [
            Split(topic=topic, name=str(partition), index=partition, owner=partition, partitioned=True)
            for topic, (_, source) in self._sources.items()
            for partition in range(1 if source.is_global else self.partitions)
        ]
        self._tasks = [
            PartitionTask(
                self.topology, partition, self.partitions, self._database(partition), splits=splits,
                wall_clock=lambda: self._now, settings=self._settings,
            )
            for partition in range(self.partitions)
        ]  # fmt: skip
        self._intakes = {topic: Intake(name, source) for topic, (name, source) in self._sources.items()}

    def _database(self, partition: int) -> TaskDatabase:
        identity = {"job": "test", "partition": partition, "partitions": self.partitions}
        if self._state_dir is None:
            return TaskDatabase.open(None, identity, engine=self._engines[partition])
        path = self._state_dir / str(partition)
        path.mkdir(parents=True, exist_ok=True)
        return TaskDatabase.open(path, identity)

    def _subscribe(self, name: str) -> None:
        """Read a topic that a pattern matches."""
        for node in self.topology.sources:
            operator = node.operator
            if isinstance(operator, TopicSource) and operator.pattern is not None and operator.pattern.fullmatch(name):
                self.commit()
                self._sources[name] = (node.name, operator)
                self.crash()
                return
        known = ", ".join(map(repr, self._sources)) or "none"
        raise ValueError(f"the topology does not read a topic {name!r}; it reads {known}")

    def _send(self, topic: str, key: Any, value: Any, timestamp: Time | None, headers: Headers | None, raw: bool) -> None:
        """One record, encoded and decoded as in a job, processed to the end."""
        time = self._now if timestamp is None else to_milliseconds(timestamp)
        _, source = self._sources[topic]
        intake = self._intakes[topic]
        if not raw:
            key, value = intake.encode(key, value)
        sent_headers = dict(headers) if headers else {}
        route = router(source.key, self.partitions, 0)

        def send() -> None:
            record = self._intakes[topic].decode(self._tasks[0].host, topic, key, value, time, sent_headers)
            if record is None:
                return
            partition = 0 if source.is_global else route(record[0], record[1])
            task = self._tasks[partition]
            channel = task.splits[f"{topic}/{0 if source.is_global else partition}"]
            position = self._sent[topic, partition] = self._sent.get((topic, partition), 0) + 1
            extracted = self._intakes[topic].timestamp(task.host, record, channel.top if channel.top >= 0 else -1)
            if extracted is not None:
                task.offer(channel.name, [record[0]], [record[1]], [extracted], [position], [record[3]])

        self._act(send)

    def _act(self, action: Callable[[], Any]) -> None:
        self._since_commit.append(action)
        action()
        self._settle()
        if self.auto_commit:
            self.commit()

    def _settle(self) -> None:
        """Process until nothing moves, over all partitions: what tasks send one another goes straight on."""
        moved = True
        while moved:
            moved = False
            for task in self._tasks:
                moved = bool(task.process()) or moved
                for (name, peer), edge in task.outgoing.items():
                    for run in edge.draw() if edge.fresh else ():
                        self._tasks[peer].incoming[name, task.partition].accept(run)
                        edge.acknowledge(run.next)
                        moved = True
            moved = self._pass_ends_on() or moved

    def _pass_ends_on(self) -> bool:
        moved = False
        for task in self._tasks:
            for name in task.ended_channels:
                for peer in self._tasks:
                    incoming = peer.incoming.get((name, task.partition))
                    if incoming is not None and not incoming.channel.ended:
                        incoming.channel.end()
                        moved = True
        return moved

    def _stores(self, name: str) -> list[Any]:
        return [task.host.store(name) for task in self._tasks]
