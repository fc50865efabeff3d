"""What is written down of a job in a cluster: enough for a manager that knows nothing else to go on.

It is in Ray's key-value store, so it lives as long as the cluster's head does. It is written before anything that depends on it
is done: a new epoch before its task starts, a standby as out of sync before the task goes on without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec
from raystreams.cluster.names import task_name
from raystreams.cluster.orders import Mode, PlannedSplit, Report

JobState = Literal["starting", "running", "paused", "stopping", "stopped", "failed", "finished"]
OVER: frozenset[JobState] = frozenset(("stopped", "failed", "finished"))


class TaskNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What a task takes of its node, as Ray counts it; `memory` in bytes."""

    num_cpus: float = 1
    memory: int | None = None
    resources: Mapping[str, float] = {}
    labels: Mapping[str, str] = {}


class Copy(msgspec.Struct, kw_only=True):
    """One copy of a partition: the actor that has it, where its files are, and if it is in sync."""

    name: str
    node: str
    path: str
    in_sync: bool = False
    round: int = 0
    """The last loss of it that is known (`replication`)."""


class PartitionRecord(msgspec.Struct, kw_only=True):
    """Who has a partition."""

    epoch: int = 0
    owner: str = ""
    copies: dict[str, Copy] = {}
    goes_to: str = ""
    """The node that it moves to: a copy there is promoted once it is in sync."""


class Outcome(msgspec.Struct, kw_only=True):
    """What a job has done, all its tasks together and over all starts."""

    sources: dict[str, int] = {}
    sinks: dict[str, int] = {}
    dropped: list[tuple[str, str, int]] = []
    dead_letters: list[tuple[str, str, int]] = []
    seconds: float = 0.0
    already_finished: bool = False


class JobRecord(msgspec.Struct, kw_only=True):
    """All of a job."""

    job: str
    partitions: int
    state_dir: str
    needs: TaskNeeds = TaskNeeds()
    runtime_env: dict[str, object] = {}
    standby_replicas: int = 0
    state: JobState = "starting"
    mode: Mode = "run"
    error: str | None = None
    incarnation: int = 0
    counter: int = 0
    submitted_at: float = 0.0
    ended_at: float = 0.0
    """Seconds since the epoch."""
    shared_nodes: Sequence[Sequence[str]] = ()
    """Groups of nodes that see the same state directory."""
    leave_nodes: Sequence[str] = ()
    """Nodes that nothing of the job should be on."""
    splits: Sequence[PlannedSplit] | None = None
    tasks: dict[int, PartitionRecord] = {}
    loops_ended: int = 0
    last_reports: dict[int, Report] = {}
    """Of a job that is over: what each task said at the end."""
    outcome: Outcome = msgspec.field(default_factory=Outcome)

    def new_epoch(self) -> int:
        """Return an epoch that no task had."""
        self.counter += 1
        return (self.incarnation << 32) | self.counter

    def new_name(self, partition: int) -> str:
        """Return a name that no actor of the job had."""
        self.counter += 1
        return task_name(self.job, partition, (self.incarnation << 32) | self.counter)


class Records(Protocol):
    """Where records are kept."""

    def load(self, job: str) -> JobRecord | None:
        """Return a job's record."""
        ...

    def save(self, record: JobRecord) -> None:
        """Write a job's record; it is durable when this returns."""
        ...


def encode(record: JobRecord) -> bytes:
    """Return a record's bytes."""
    return msgspec.json.encode(record)


def decode(data: bytes) -> JobRecord:
    """Return the record of its bytes."""
    return msgspec.json.decode(data, type=JobRecord)
