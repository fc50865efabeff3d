"""What the processes of a job have said, read from them: the manager and the tasks that are there now."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import ray
from ray.exceptions import RayError
from raystreams.cluster.job_record import OVER
from raystreams.cluster.log_lines import Line
from raystreams.cluster.names import NAMESPACE, manager_name
from raystreams.cluster.submission import status

_POLL_SECONDS = 0.5


def lines_of(job: str, partition: int | None, *, follow: bool) -> Iterator[str]:
    """Yield lines, in the order of their times; with `follow` until the job is over."""
    seen: dict[str, int] = {}
    while True:
        now = status(job)
        names = {f"partition {task.partition}": task.actor for task in now.tasks if partition in (None, task.partition)}
        if partition is None:
            names = {"manager": manager_name(job), **names}
        found = sorted((line, who) for who, actor in names.items() for line in _lines(actor, seen))
        for (_, at, text), who in sorted(found, key=lambda one: one[0][1]):
            yield f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%d %H:%M:%S}Z  {who}  {text}"
        if not follow or now.state in OVER:
            return
        time.sleep(_POLL_SECONDS)


def _lines(actor: str, seen: dict[str, int]) -> list[Line]:
    try:
        handle: Any = ray.get_actor(actor, namespace=NAMESPACE)
        lines: list[Line] = ray.get(handle.logs.remote(seen.get(actor, 0)), timeout=5)
    except (ValueError, RayError):
        return []  # it has ended, or starts
    if lines:
        seen[actor] = lines[-1][0]
    return lines
