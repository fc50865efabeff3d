"""A job that was submitted to a Ray cluster: the handle that `Job.submit` returns.

Ray is imported when a job is submitted, not before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from raystreams.cluster.client import Client, client_of
from raystreams.cluster.errors import JobFailedError
from raystreams.cluster.job_record import OVER, TaskNeeds
from raystreams.cluster.progress import Summary
from raystreams.cluster.statuses import JobStatus
from typing_extensions import Self

if TYPE_CHECKING:
    from raystreams.cluster.job import Job, Result
    from raystreams.cluster.remote_codec import Handle


class SubmittedJob:
    """A job in a cluster; a context manager that stops it. It goes on when this process ends, unless it began the cluster."""

    def __init__(self, job: Job, stack: ExitStack) -> None:
        self._job, self._stack = job, stack
        self._client: Client | None = None

    @classmethod
    def begin(cls, job: Job, address: str | None, num_cpus: int | None) -> SubmittedJob:
        """Join the cluster and start the job there."""
        from raystreams.cluster import submission

        stack = ExitStack()
        with stack:
            stack.enter_context(submission.joined(address, num_cpus=num_cpus))
            submission.submit(job, shared_needs(job) if address == submission.LOCAL else None)
            return cls(job, stack.pop_all())

    @property
    def name(self) -> str:
        """The name of the job."""
        return self._job.name

    def status(self) -> JobStatus:
        """How it is."""
        status: JobStatus = _submission().status(self.name)
        return status

    def store(self, store: Handle, *, timeout: float = 10.0, stale_ok: bool = False) -> Any:
        """A store of all partitions, to read what is committed; see `Client.store`."""
        if self._client is None:
            self._client = client_of(self.name)
        return self._client.store(store, timeout=timeout, stale_ok=stale_ok)

    def pause(self) -> None:
        """Stop reading and processing; what is committed goes out."""
        _submission().command(self.name, "pause")

    def resume(self) -> None:
        """Go on after a pause; start again after a stop or a failure."""
        _submission().resume(self.name)

    def stop(self) -> None:
        """A last commit of all tasks; returns when the job is stopped. A job that is over stays as it is."""
        if self.status().state not in OVER:
            _submission().command(self.name, "stop")
            _submission().follow(self.name)

    def wait(self, timeout: float | None = None, show: Callable[[JobStatus], None] = lambda status: None) -> Result:
        """Wait until the job is over, and return what it gave. `show` is called with each status.

        Raises JobFailedError if it has failed, TimeoutError after `timeout` seconds; the job goes on then.
        """
        end = None if timeout is None else time.monotonic() + timeout

        def shown(status: JobStatus) -> None:
            show(status)
            if end is not None and status.state not in OVER and time.monotonic() > end:
                raise TimeoutError(f"the job {self.name!r} is {status.state} after {timeout:g} s")

        status: JobStatus = _submission().follow(self.name, shown)
        if status.state == "failed":
            raise JobFailedError(self.name, status.error or "unknown")
        _submission().collect(self._job)
        return self._job.result(summary_of(status))

    def close(self) -> None:
        """Leave the cluster; one that was started for the job ends."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, t: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self.stop()
        finally:
            self.close()


def _submission() -> ModuleType:
    from raystreams.cluster import submission

    return submission


def shared_needs(job: Job) -> TaskNeeds:
    """What tasks take in a cluster that was started for them: they share its CPUs, and nothing else is asked."""
    import ray

    cpus = float(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
    count = job.partitions * (1 + job.cluster.standby_replicas)
    return TaskNeeds(num_cpus=min(job.cluster.num_cpus, int(1000 * cpus / count) / 1000))


def summary_of(status: JobStatus) -> Summary:
    """What a job has done, as a run tells it."""
    outcome = status.outcome
    return Summary(
        sources=outcome.sources,
        sinks=outcome.sinks,
        dropped={(operator, reason): count for operator, reason, count in outcome.dropped},
        dead_letters={(topic, reason): count for topic, reason, count in outcome.dead_letters},
        seconds=outcome.seconds,
        already_finished=outcome.already_finished,
    )
