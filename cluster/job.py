"""`Job`: a topology, what its topics are bound to, and settings. A job file is only its written form.

    job.run()     embedded: this process, until bounded sources end
    job.start()   the same in the background, with its state open to questions
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from raystreams.cluster.bindings import AnySink, AnySource, bind, name_of
from raystreams.cluster.cluster_settings import ClusterSettings
from raystreams.cluster.connectors.collect import Collect
from raystreams.cluster.errors import ConfigError, NotAvailableError
from raystreams.cluster.local import LocalRunner
from raystreams.cluster.outputs import WrittenBatch
from raystreams.cluster.partitioned_store import PartitionedStore, store_name
from raystreams.cluster.progress import Progress, Summary
from raystreams.cluster.task_shell import RunSettings
from raystreams.operators.graph import Topology
from raystreams.operators.options import Materialized, OnError, Topic, check_name, check_on_error
from raystreams.operators.record import Record
from raystreams.stores.builders import StoreBuilder
from typing_extensions import Self, TypeVar

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from raystreams.cluster.job_file import JobDescription
    from raystreams.cluster.submitted import SubmittedJob

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)


class Output(Generic[K, V]):
    """What a `Collect` sink has kept of a topic: partition after partition, each in its order."""

    def __init__(self, collected: Collect) -> None:
        self._collected = collected

    def __iter__(self) -> Iterator[Record[K, V]]:
        return iter(self._collected)

    def __len__(self) -> int:
        return len(self._collected)

    def to_arrow(self) -> Any:
        """The records as an Arrow table: key, timestamp, and the fields of values that have fields. Needs pyarrow."""
        return self._collected.to_arrow()

    def to_pandas(self) -> Any:
        """As `to_arrow`, as a pandas frame."""
        return self._collected.to_pandas()

    def to_ray(self) -> Any:
        """As `to_arrow`, as a Ray Dataset. Needs ray[data]."""
        from ray.data import from_arrow

        return from_arrow(self.to_arrow())


class Result:
    """What a run gave: a summary, and the collected topics."""

    def __init__(self, summary: Summary, collected: Mapping[str, Collect]) -> None:
        self.summary, self._collected = summary, collected

    @overload
    def __getitem__(self, topic: str) -> Output[Any, Any]: ...
    @overload
    def __getitem__(self, topic: Topic[K, V]) -> Output[K, V]: ...
    def __getitem__(self, topic: Any) -> Output[Any, Any]:
        """The records of a topic that is bound to `Collect()`; KeyError for any other."""
        name = name_of(topic)
        if name not in self._collected:
            known = ", ".join(map(repr, self._collected)) or "none"
            raise KeyError(f"topic {name!r} is not collected (collected: {known}); bind it to Collect()")
        return Output(self._collected[name])


class Job:
    """A topology with its bindings and settings. `state_dir` None keeps the state in memory."""

    def __init__(
        self,
        name: str,
        topology: Topology,
        *,
        sources: Mapping[Any, AnySource],
        sinks: Mapping[Any, AnySink | Sequence[AnySink]] | None = None,
        partitions: int = 1,
        state_dir: str | Path | None = None,
        guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once",
        on_error: OnError = "fail",
        cluster: ClusterSettings | None = None,
        runtime_env: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(topology, Topology):
            raise TypeError(f"topology must be what StreamsBuilder.build() returns, got {topology!r}")
        if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
            raise ConfigError(f"partitions must be at least 1, got {partitions!r}")
        if guarantee not in ("exactly_once", "at_least_once"):
            raise ConfigError(f"guarantee must be 'exactly_once' or 'at_least_once', got {guarantee!r}")
        self.name, self.topology, self.partitions = check_name(name, "job"), topology, partitions
        self.state_dir = None if state_dir is None else Path(state_dir)
        self.guarantee, self.on_error = guarantee, check_on_error(on_error) or "fail"
        self.cluster, self.runtime_env = cluster or ClusterSettings(), dict(runtime_env or {})
        self.folder: Path | None = None
        """Where its code lies: the folder of its job file; None: that of the program."""
        self.bindings = bind(topology, sources, sinks or {}, self.on_error)

    @classmethod
    def load(cls, path: str | Path, **params: Any) -> Job:
        """The job that a job file describes; `params` go over its [params]. Raises ConfigError."""
        from raystreams.cluster.job_file import load_job_file

        return cls.of(load_job_file(path, params))

    @classmethod
    def of(cls, described: JobDescription) -> Job:
        """The job of a job file that was read."""
        job = cls(
            described.name, described.topology, sources=described.sources, sinks=described.sinks,
            partitions=described.partitions, state_dir=described.state_dir, guarantee=described.guarantee,
            on_error=described.on_error, cluster=described.cluster, runtime_env=described.runtime_env,
        )  # fmt: skip
        job.folder = described.folder
        return job

    def run(self, progress: Callable[[Progress], None] | None = None) -> Result:
        """Run in this process until all sources have ended.

        Started again after a crash it goes on where it was; after a finished run it does nothing and says so in the summary.
        Whatever it raises, what was committed stays. `progress` is called after each commit.
        """
        return self.result(self._runner().run(progress))

    def start(self) -> RunningJob:
        """Run in the background. Stop it with `.stop()`, or wait for its end with `.wait()`."""
        return RunningJob(self, self._runner())

    def submit(self, address: str | None = None, *, num_cpus: int | None = None) -> SubmittedJob:
        """Run in a Ray cluster, each partition as an actor of its own; see docs/cluster.md.

        `address` is the cluster's; without one the one that this process is in, or that Ray finds. "local" starts one on this
        machine with so many CPUs, which ends with what this returns. Raises ConfigError if the job can't be started there.
        """
        from raystreams.cluster.submitted import SubmittedJob

        return SubmittedJob.begin(self, address, num_cpus)

    def _runner(self) -> LocalRunner:
        settings = RunSettings(
            name=self.name, partitions=self.partitions, state_dir=self.state_dir, on_error=self.on_error,
            exactly_once=self.guarantee == "exactly_once",
        )  # fmt: skip
        return LocalRunner(self.topology, self.bindings, settings)

    def result(self, summary: Summary) -> Result:
        """What a run gave, with what its `Collect` sinks have."""
        collected = {
            topic: sink for topic, sinks in self.bindings.sinks.items() for sink in sinks if isinstance(sink, Collect)
        }
        return Result(summary, collected)


class RunningJob:
    """A job that runs in the background of this process; a context manager that stops it."""

    def __init__(self, job: Job, runner: LocalRunner) -> None:
        self._job, self._runner = job, runner
        self._progress: Progress | None = None
        self._summary: Summary | None = None
        self._error: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"job {job.name}", daemon=True)
        self._thread.start()

    def status(self) -> Progress | None:
        """How far it is, as of its last commit; None before the first."""
        self._raise()
        return self._progress

    @property
    def metrics(self) -> CollectorRegistry:
        """What its tasks count, as Prometheus metrics (see `cluster/metrics.py`)."""
        from raystreams.cluster.metrics import metrics_of

        return metrics_of(lambda: self._runner.tasks)

    def store(self, store: str | Materialized[Any, Any] | StoreBuilder[Any]) -> Any:
        """A store of all partitions, to read what is committed. Raises NotAvailableError when the job does not run."""
        builder = self._job.topology.stores[store_name(store, self._job.topology)]
        return PartitionedStore(builder, lambda: self._committed(builder))

    def tail(self, topic: str | Topic[K, V]) -> Iterator[Record[K, V]]:
        """The records that are committed to a topic from now on; ends with the job, and raises what the job raised."""
        name = name_of(topic)
        batches: queue.SimpleQueue[WrittenBatch] = queue.SimpleQueue()

        def listen(batch: WrittenBatch) -> None:
            if batch.topic == name:
                batches.put(batch)

        self._runner.listeners.append(listen)
        return self._tailed(batches, listen)

    def _tailed(
        self, batches: queue.SimpleQueue[WrittenBatch], listen: Callable[[WrittenBatch], None]
    ) -> Iterator[Record[Any, Any]]:
        try:
            while True:
                alive = self._thread.is_alive()
                try:
                    yield from batches.get(timeout=0.05).records
                except queue.Empty:
                    if not alive:
                        break
            self._raise()
        finally:
            self._runner.listeners.remove(listen)

    def stop(self) -> None:
        """Commit what is processed, stop, and wait for that; raises what the job raised."""
        self._runner.stop()
        self._thread.join()
        self._raise()

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end of all sources; raises what the job raised, TimeoutError after `timeout` seconds."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"the job {self._job.name!r} still runs")
        self._raise()
        assert self._summary is not None
        return self._job.result(self._summary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, t: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._runner.stop()
        self._thread.join()
        if e is None:
            self._raise()

    def _run(self) -> None:
        try:
            self._summary = self._runner.run(self._note)
        except BaseException as error:  # raised again to whoever asks
            self._error = error

    def _note(self, progress: Progress) -> None:
        self._progress = progress

    def _committed(self, builder: StoreBuilder[Any]) -> list[Any]:
        tasks = self._runner.tasks
        if not self._thread.is_alive() or self._progress is None or len(tasks) < self._job.partitions:
            self._raise()
            text = f"the job {self._job.name!r} is not running, or has not committed yet"
            raise NotAvailableError(text, self._thread.is_alive())
        asked = tasks[:1] if builder.name in self._job.topology.global_stores else tasks
        return [builder.read_committed(task.database) for task in asked]

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
