"""From a job to its manager in a Ray cluster: what is checked before anything starts, and how it is followed afterwards.

    connect     join the cluster at an address; "local" starts one on this machine
    submit      write record and code into the cluster, start the manager
    follow      ask for the job's status until it is over; a manager that restarts meanwhile is waited for
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from raystreams.cluster.cluster_settings import ClusterSettings
from raystreams.cluster.code_bundle import bundle
from raystreams.cluster.collected import Page, page_of
from raystreams.cluster.collected import collect as fill
from raystreams.cluster.errors import ConfigError, NotAvailableError
from raystreams.cluster.job import Job
from raystreams.cluster.job_manager import JobManager
from raystreams.cluster.job_record import OVER, JobRecord, TaskNeeds
from raystreams.cluster.names import NAMESPACE, manager_name
from raystreams.cluster.orders import Mode
from raystreams.cluster.ray_nodes import nodes_now
from raystreams.cluster.ray_records import RayRecords
from raystreams.cluster.statuses import JobStatus, status_of
from raystreams.operators.errors import TopologyError

PATIENCE = 30.0
"""Seconds that a manager may take to answer: it may be starting again on another node."""

LOCAL = "local"
_CONNECT_SECONDS = 5.0


@contextmanager
def joined(address: str | None, *, num_cpus: float | None = None) -> Iterator[None]:
    """Be in a cluster for the time of a with-block. ConfigError says what is wrong if it can't be joined.

    "local" starts one here with so many CPUs, which ends with the block; a process that is in one already stays in it.
    """
    if ray.is_initialized():
        if address not in (None, "auto"):
            raise ConfigError(f"this process is in a Ray cluster already, and can't join {address!r}: leave address out")
        yield
        return
    _join(address, num_cpus)
    try:
        yield
    finally:
        ray.shutdown()


def _join(address: str | None, num_cpus: float | None) -> None:
    _look_for(address)
    given: dict[str, Any] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address == LOCAL:
            cpus = max(1, round(num_cpus or os.cpu_count() or 1))
            ray.init(address=LOCAL, num_cpus=cpus, include_dashboard=False, **given)
        else:
            ray.init(address=address or "auto", **given)
    except (ConnectionError, TimeoutError, ValueError) as error:
        where = "on this machine" if address in (None, "auto") else f"at {address}"
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ConfigError(
            f"there is no Ray cluster {where}: {first}. Start one (`ray start --head`), give its --address, or use "
            f"--address local, which starts one for this job"
        ) from error
    except (RuntimeError, RayError) as error:
        raise ConfigError(f"the Ray cluster can't be joined: {error}") from error


def _look_for(address: str | None) -> None:
    """Ask if something listens at an address: Ray itself goes on trying for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigError(
            f"there is no Ray cluster at {address}: {error.strerror or error}. Start one (`ray start --head`), give its "
            f"--address, or use --address local, which starts one for this job"
        ) from error


def submit(job: Job, needs: TaskNeeds | None = None) -> None:
    """Start a job in the cluster that this process is in. ConfigError says why it can't be started.

    A job that was stopped, or has failed, goes on from its state; one that has finished finishes again at once. One that runs
    is an error. `needs` are what its tasks take in place of what the job says.
    """
    if job.state_dir is None:
        raise ConfigError(f"the job {job.name!r} has no state_dir: what its tasks keep would be lost with their processes")
    _check_names(job)
    records = RayRecords()
    known = records.load(job.name)
    if known is not None and known.state not in OVER and is_managed(job.name):
        raise ConfigError(
            f"a job {job.name!r} is {known.state} in this cluster. Stop it first (`raystreams stop {job.name}`), or give "
            f"this one another name"
        )
    _forget_manager(job.name)
    packed = bundle(job, root=job.folder)
    record = JobRecord(
        job=job.name,
        partitions=job.partitions,
        state_dir=str(job.state_dir.absolute()),
        needs=needs or needs_of(job.cluster),
        runtime_env=job.runtime_env,
        standby_replicas=job.cluster.standby_replicas,
        incarnation=0 if known is None else known.incarnation,
        submitted_at=time.time(),
    )
    records.save_bundle(job.name, packed)
    records.save(record)
    _start_manager(job.name)


def needs_of(settings: ClusterSettings) -> TaskNeeds:
    """Return what a task takes of its node."""
    return TaskNeeds(
        num_cpus=settings.num_cpus, memory=settings.memory, resources=dict(settings.resources), labels=dict(settings.labels)
    )


def resume(job: str) -> None:
    """Let a paused job go on; start one again that was stopped or has failed. ConfigError if there is none."""
    records = RayRecords()
    record = _known(job, records)
    if record.state not in OVER:
        command(job, "run")
        return
    if record.state == "finished":
        raise ConfigError(f"the job {job!r} has finished: all its sources have ended. To run it anew, `raystreams reset` it")
    _forget_manager(job)
    record.state, record.mode, record.error, record.splits = "starting", "run", None, None
    record.tasks, record.last_reports = {}, {}
    records.save(record)
    _start_manager(job)


def _start_manager(job: str) -> None:
    head = next((node["NodeID"] for node in ray.nodes() if "node:__internal_head__" in node["Resources"]), None)  # type: ignore[no-untyped-call]
    options: dict[str, Any] = {
        "name": manager_name(job), "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True, "num_cpus": 0,
        "max_restarts": -1, "max_concurrency": 1000,
    }  # fmt: skip
    if head is not None:
        # The cluster does not outlive its head, so the manager is safest there.
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(head, soft=True)
    manager: Any = ray.remote(JobManager).options(**options).remote(job)
    ray.get(manager.run.remote(), timeout=PATIENCE)


def _forget_manager(job: str) -> None:
    """The manager of a job that is over is about to end: the next one must not be taken for it."""
    end = time.monotonic() + PATIENCE
    while is_managed(job) and time.monotonic() < end:
        with contextlib.suppress(ValueError, RayError):
            ray.kill(ray.get_actor(manager_name(job), namespace=NAMESPACE))
        time.sleep(0.05)


def is_managed(job: str) -> bool:
    """Whether a manager of the job is there."""
    try:
        ray.get_actor(manager_name(job), namespace=NAMESPACE)
    except ValueError:
        return False
    return True


def status(job: str) -> JobStatus:
    """How a job is. ConfigError if there is none; NotAvailableError if its manager can't be reached."""
    records = RayRecords()
    end = time.monotonic() + PATIENCE
    while True:
        record = _known(job, records)
        if record.state in OVER:
            return status_of(record)
        try:
            manager = ray.get_actor(manager_name(job), namespace=NAMESPACE)
            answer: JobStatus = ray.get(manager.status.remote(), timeout=5)
            return answer
        except (ValueError, RayError) as error:
            if time.monotonic() > end:
                raise NotAvailableError(f"the manager of the job {job!r} can't be reached: {error}", True) from error
            time.sleep(0.2)


def command(job: str, mode: Mode) -> None:
    """Tell a job to run, pause or stop. ConfigError if there is none, or if it is over."""
    _running(job)
    try:
        manager = ray.get_actor(manager_name(job), namespace=NAMESPACE)
        ray.get(manager.command.remote(mode), timeout=PATIENCE)
    except (ValueError, RayError) as error:
        raise NotAvailableError(f"the manager of the job {job!r} can't be reached: {error}", True) from error


def rebalance(job: str, leave: Sequence[str] = ()) -> dict[int, str]:
    """Move tasks, with their state, so that nodes are even; none stays on those to be left. Returns (partition: node) of moves.

    `leave` are ids of nodes, or how they begin. ConfigError if one isn't known, or if there is no room elsewhere. Moves go on
    after this returns: `status` tells how far they are.
    """
    ids = [node["NodeID"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    found = [next((id for id in ids if id.startswith(begin)), begin) for begin in leave]
    unknown = [node for node in found if node not in ids]
    if unknown:
        raise ConfigError(f"there is no node {', '.join(unknown)} in this cluster; there are {', '.join(ids)}")
    _running(job)
    try:
        manager = ray.get_actor(manager_name(job), namespace=NAMESPACE)
        moves: dict[int, str] = ray.get(manager.rebalance.remote(found), timeout=PATIENCE)
    except RayTaskError as error:
        raise (error.cause or error) from error
    except (ValueError, RayError) as error:
        raise NotAvailableError(f"the manager of the job {job!r} can't be reached: {error}", True) from error
    return moves


def follow(job: str, show: Callable[[JobStatus], None] = lambda status: None, *, every: float = 0.25) -> JobStatus:
    """Show a job's status again and again, until the job is over; return the last one."""
    while True:
        now = status(job)
        show(now)
        if now.state in OVER:
            return now
        time.sleep(every)


def jobs() -> list[JobStatus]:
    """How all jobs of the cluster are, without their tasks."""
    records = RayRecords()
    loaded = [records.load(job) for job in records.jobs()]
    return [status_of(record) for record in loaded if record is not None]


def _known(job: str, records: RayRecords) -> JobRecord:
    record = records.load(job)
    if record is None:
        known = ", ".join(map(repr, records.jobs())) or "none"
        raise ConfigError(f"there is no job {job!r} in this cluster; there are: {known}")
    return record


def _running(job: str) -> None:
    record = _known(job, RayRecords())
    if record.state in OVER:
        raise ConfigError(f"the job {job!r} is not running: it is {record.state}")


def _check_names(job: Job) -> None:
    """Names that are counted would mean another store when a line is inserted: `submit` wants all of them given."""
    unnamed = job.topology.unnamed_stateful
    if unnamed:
        raise TopologyError(
            f"these operators keep state, and have no name of their own: {', '.join(unnamed)}. Their state would be lost when "
            f"the topology changes; give each a name (name=, Materialized)"
        )


def collect(job: Job) -> None:
    """Fetch what a job that is over has collected into its `Collect` sinks. NotAvailableError if a node that has it is gone."""
    record = _known(job.name, RayRecords())
    nodes = {node.id for node in nodes_now()}

    def read(partition: int, topic: str, after: int) -> Page:
        task = record.tasks[partition]
        copy = task.copies[task.owner]
        if copy.node not in nodes:
            text = f"partition {partition} of {job.name!r} is on the node {copy.node[:8]}, which is gone"
            raise NotAvailableError(f"{text}: what it has collected is in {copy.path} there")
        strategy = NodeAffinitySchedulingStrategy(copy.node, soft=False)
        remote = ray.remote(page_of).options(num_cpus=0, scheduling_strategy=strategy)
        page: Page = ray.get(remote.remote(copy.path, job.name, partition, job.partitions, topic, after))
        return page

    fill(job, read)
