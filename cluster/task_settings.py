"""What a job and its shell say to each task."""

from __future__ import annotations

from dataclasses import dataclass

from raystreams.operators.options import OnError

EDGE_RECORDS = 65_536
"""Records that may be on their way on one edge; above that, what feeds it waits. Channels that feed back are exempt."""

EDGE_BYTES = 32 << 20
"""Likewise, bytes of encoded records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """What a job says to each of its tasks."""

    job: str = "job"
    on_error: OnError = "fail"
    durable_outputs: bool = True
    """Sink batches are kept until a sink has written them; a shell that takes them at once needs no copy."""
    patient: bool = True
    """Empty inputs hold others back, so that time decides; a test driver takes records as they are sent."""
    edge_records: int = EDGE_RECORDS
    edge_bytes: int = EDGE_BYTES
    tap: bool = False
    """Keep what is sent on channels, for tests to read."""
    keep_outputs: frozenset[str] = frozenset()
    """Topics whose batches stay in the database when they are written, to be collected at the end."""
    epoch: int = 0
    """The incarnation of the task, in a cluster; no lower than any that its database has seen."""
