"""What is told of a job in a cluster: one struct for the command line, for programs, and for `--json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from raystreams.cluster.job_record import JobRecord, JobState, Outcome
from raystreams.cluster.orders import Report
from raystreams.cluster.progress import SourceProgress, merged, total

if TYPE_CHECKING:
    from raystreams.cluster.supervision import Supervisor


class TaskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One partition's task. Times in milliseconds since the epoch."""

    partition: int
    state: str
    node: str = ""
    actor: str = ""
    epoch: int = 0
    commits: int = 0
    processed: int = 0
    event_time: int | None = None
    waiting: int = 0
    unacknowledged: int = 0
    held_up: bool = False
    lag: int | None = None
    """How far its event time is behind that of the furthest task, in milliseconds."""
    sent: Mapping[int, int] = {}
    """By peer: the records that it has taken."""
    standbys: Mapping[str, str] = {}
    """By node: "in sync", "behind" or "lost"."""


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A job: its state, its tasks and sources."""

    job: str
    state: JobState
    error: str | None = None
    missing: Sequence[int] = ()
    """Partitions that wait for a node with their state."""
    partitions: int = 0
    tasks: Sequence[TaskStatus] = ()
    sources: Sequence[SourceProgress] = ()
    records: Mapping[str, int] = {}
    """By topic: records that were processed, ever."""
    outcome: Outcome = msgspec.field(default_factory=Outcome)
    submitted_at: float = 0.0
    """Seconds since the epoch."""
    crossed_nodes: int = 0
    """Records that went from a task on one node to a task on another one."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Which actor has a partition, and which ones follow it."""

    name: str
    epoch: int
    node: str
    standbys: Sequence[str] = ()


def status_of(record: JobRecord, supervisor: Supervisor | None = None) -> JobStatus:
    """Return the status of a record, and of what its supervisor knows."""
    reports = {n: record.last_reports.get(n) if supervisor is None else supervisor.report_of(n) for n in record.tasks}
    tasks = [_task(record, partition, report) for partition, report in reports.items()]
    furthest = max((task.event_time for task in tasks if task.event_time is not None), default=None)
    if furthest is not None:
        tasks = [
            task if task.event_time is None else msgspec.structs.replace(task, lag=furthest - task.event_time) for task in tasks
        ]
    node_of = {task.partition: task.node for task in tasks}
    crossed = sum(
        count for task in tasks for peer, count in task.sent.items() if node_of.get(peer, task.node) != task.node
    )
    known = [report.sources for report in reports.values() if report is not None]
    topics = dict.fromkeys(source.topic for sources in known for source in sources)
    return JobStatus(
        job=record.job,
        state=record.state,
        error=record.error,
        missing=tuple(supervisor.missing) if supervisor is not None else (),
        partitions=record.partitions,
        tasks=tasks,
        sources=merged(topics, known),
        records=total(report.taken for report in reports.values() if report is not None),
        outcome=record.outcome,
        submitted_at=record.submitted_at,
        crossed_nodes=crossed,
    )


def _task(record: JobRecord, partition: int, report: Report | None) -> TaskStatus:
    task = record.tasks[partition]
    copy = task.copies.get(task.owner)
    phases = {} if report is None else report.standbys
    return TaskStatus(
        partition=partition,
        state="starting" if report is None or (report.epoch != task.epoch and report.state == "running") else report.state,
        node="" if copy is None else copy.node,
        actor=task.owner,
        epoch=task.epoch,
        commits=0 if report is None else report.commits,
        processed=0 if report is None else report.processed,
        event_time=None if report is None else report.event_time,
        waiting=0 if report is None else report.waiting,
        unacknowledged=0 if report is None else report.unacknowledged,
        held_up=report is not None and report.held_up,
        sent={} if report is None else report.sent,
        standbys={c.node: phases.get(c.name, ("behind", 0))[0] for c in task.copies.values() if c.name != task.owner},
    )
