"""A job of a cluster as people see it: a line for each task, and while it runs a table that is drawn again in place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from raystreams.cluster.statuses import JobStatus, TaskStatus
from raystreams.cluster.terminal import PLAIN_EVERY, time_text

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("partition", "node", "state", "records", "rate", "event time", "lag", "commits", "waiting", "")


class TaskRates:
    """Records a second of each task, over about the last five seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: list[tuple[float, dict[int, int]]] = []

    def of(self, status: JobStatus) -> dict[int, float]:
        """Return the rates at a moment; a task that has started again counts from there."""
        now, counts = self._clock(), {task.partition: task.processed for task in status.tasks}
        recent = [one for one in self._seen if one[0] >= now - 5.0]
        self._seen = [*recent[-50:], (now, counts)]
        at, before = self._seen[0]
        seconds = now - at
        return {n: max(0, count - before.get(n, 0)) / seconds if seconds > 0 else 0.0 for n, count in counts.items()}


def cells(task: TaskStatus, rate: float) -> tuple[str, ...]:
    """Return what is said of a task, by `COLUMNS`."""
    notes = [f"standby {phase}" for phase in task.standbys.values()]
    if task.held_up:
        notes.append("held up")
    return (
        str(task.partition),
        task.node[:8],
        task.state,
        f"{task.processed:,}",
        f"{rate:,.0f}/s",
        "" if task.event_time is None else time_text(task.event_time),
        "" if task.lag is None else duration_text(task.lag),
        f"{task.commits:,}",
        f"{task.waiting + task.unacknowledged:,}",
        ", ".join(notes),
    )


def duration_text(milliseconds: int) -> str:
    """Return a length of time for people, in its two largest units."""
    seconds = milliseconds // 1000
    for unit, name, smaller, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= unit:
            rest = seconds % unit // smaller
            return f"{seconds // unit}{name}" + (f" {rest}{small}" if rest else "")
    return f"{milliseconds / 1000:g}s"


def status_text(status: JobStatus) -> str:
    """Return all of a status, for people."""
    lines = [f"{status.job} is {status.state}"]
    if status.error is not None:
        lines.append(f"  {status.error}")
    if status.missing:
        lines.append(f"  waiting for a node that has the state of partitions {', '.join(map(str, status.missing))}")
    rows = [COLUMNS, *(cells(task, 0.0) for task in status.tasks)]
    rows = [row[:4] + row[5:] for row in rows]  # one moment has no rate
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if status.crossed_nodes:
        lines.append(f"  {status.crossed_nodes:,} records went from one node to another")
    return "\n".join(lines)


Show = Callable[[JobStatus], None]


@contextmanager
def shown(stream: TextIO, *, quiet: bool = False) -> Iterator[Show]:
    """Give a function that shows a job's status on a stream, for the time of a with-block."""
    if quiet:
        yield lambda status: None
    elif stream.isatty():
        from rich.console import Console
        from rich.live import Live

        rates = TaskRates()
        with Live(console=Console(file=stream), refresh_per_second=8, transient=True) as live:
            yield lambda status: live.update(_table(status, rates.of(status)))
    else:
        yield PlainStatus(stream)


class PlainStatus:
    """Writes a line a task every few seconds, and one whenever the job's state changes."""

    def __init__(self, stream: TextIO, every: float = PLAIN_EVERY, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._every, self._clock = stream, every, clock
        self._state = ""
        self._next = clock() + every
        self._rates = TaskRates(clock)

    def __call__(self, status: JobStatus) -> None:
        """Write what is due."""
        rates = self._rates.of(status)
        if status.state != self._state:
            self._state = status.state
            print(f"{status.job} is {status.state}", file=self._stream, flush=True)
        if self._clock() >= self._next:
            self._next = self._clock() + self._every
            for task in status.tasks:
                said = [cell for cell in cells(task, rates[task.partition])[1:] if cell]
                print("  ".join((f"partition {task.partition}", *said)), file=self._stream, flush=True)


def _table(status: JobStatus, rates: dict[int, float]) -> Table:
    from rich.table import Table

    table = Table(*COLUMNS, box=None, pad_edge=False)
    for column in (0, 3, 4, 7, 8):
        table.columns[column].justify = "right"
    for task in status.tasks:
        table.add_row(*cells(task, rates[task.partition]))
    table.caption = f"{status.job} is {status.state}"
    table.caption_justify = "left"
    return table
