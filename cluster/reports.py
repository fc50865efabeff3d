"""A task's report: what it noted a moment ago, with what it is right now."""

from __future__ import annotations

import msgspec
from raystreams.cluster.member import TaskMember
from raystreams.cluster.orders import Report
from raystreams.cluster.progress import total
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_shell import TaskShell


def noted(member: TaskMember, shell: TaskShell, *, already_finished: bool) -> Report:
    """What only the task's own thread may look at."""
    task, sources = member.task, shell.progress()
    return Report(
        state="paused" if member.mode == "pause" else "running",
        epoch=member.epoch,
        event_time=max((source.event_time for source in sources if source.event_time is not None), default=None),
        held_up=any(task.is_held_up(channel) for channel in task.splits.values() if not channel.finished),
        sources=sources,
        taken=_taken(task),
        sinks=dict(task.outputs.written),
        dropped=[(operator, reason, count) for (operator, reason), count in task.dropped.items()],
        dead_letters=[(topic, reason, count) for (topic, reason), count in task.host.dead_letters.items()],
        already_finished=already_finished,
        lineage=task.lineage,
    )


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


def _taken(task: PartitionTask) -> dict[str, int]:
    """Records of each topic's splits that a task has processed, ever."""
    return total({channel.topic or "": channel.count} for channel in task.splits.values())
