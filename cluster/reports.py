"""A task's report: what it noted a moment ago, with what it is right now."""

from __future__ import annotations

import msgspec
from raystreams.cluster.member import TaskMember
from raystreams.cluster.orders import Report


def report_of(noted: Report, member: TaskMember | None) -> Report:
    """Bring a report up to date, on any thread."""
    if member is None:
        return noted
    # Before the activity: see `TaskMember._acts`.
    is_quiet, is_done = member.is_quiet, member.is_done
    task = member.task
    return msgspec.structs.replace(
        noted,
        is_quiet=is_quiet,
        is_done=is_done,
        activity=member.activity,
        standbys=member.replication.phases(),
        commits=member.commits,
        processed=member.processed,
        waiting=task.waiting,
        unacknowledged=task.unacknowledged,
        sent=member.links.taken_by_peers(),
    )
