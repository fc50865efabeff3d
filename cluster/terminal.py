"""What a run shows: on a terminal a table that is drawn again in place, elsewhere a plain line every few seconds; then a summary.

Everything shown is of `progress`, so that it can be tested without a run. rich is imported only where there is a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TextIO

from raystreams.cluster.progress import Progress, SourceProgress, Summary

if TYPE_CHECKING:
    from rich.table import Table

Show = Callable[[Progress], None]

PLAIN_EVERY = 5.0
"""Seconds between plain lines."""


@contextmanager
def shown(stream: TextIO, *, quiet: bool = False) -> Iterator[Show]:
    """Give a function that shows progress on a stream, for the time of a with-block."""
    if quiet:
        yield lambda progress: None
    elif stream.isatty():
        with _live(stream) as show:
            yield show
    else:
        yield PlainLines(stream)


class PlainLines:
    """Writes a line a source, at most every few seconds of the run, and one when it ends."""

    def __init__(self, stream: TextIO, every: float = PLAIN_EVERY) -> None:
        self._stream, self._every = stream, every
        self._next = every
        self._ended: set[str] = set()
        self._rates = Rates()

    def __call__(self, progress: Progress) -> None:
        """Write what is due."""
        rates = self._rates.of(progress)
        is_due = progress.seconds >= self._next
        if is_due:
            self._next = progress.seconds + self._every
        for source in progress.sources:
            ends_now = source.ended and source.topic not in self._ended
            if ends_now or (is_due and not source.ended):
                print("  ".join((source.topic, *cells(source, rates[source.topic]))), file=self._stream, flush=True)
            if ends_now:
                self._ended.add(source.topic)


class Rates:
    """Records a second of each source, over about the last five seconds."""

    def __init__(self) -> None:
        self._seen: list[Progress] = []

    def of(self, progress: Progress) -> Mapping[str, float]:
        """Return the rates at a moment; moments come in order."""
        recent = [one for one in self._seen if one.seconds >= progress.seconds - 5.0]
        self._seen = [*recent[-50:], progress]
        first = self._seen[0]
        before = {source.topic: source.records for source in first.sources} if len(self._seen) > 1 else {}
        seconds = progress.seconds - (first.seconds if len(self._seen) > 1 else 0.0)
        return {
            source.topic: (source.records - before.get(source.topic, 0)) / seconds if seconds > 0 else 0.0
            for source in progress.sources
        }


def cells(source: SourceProgress, rate: float) -> list[str]:
    """Return what is said of a source: records, rate or end, event time, percent."""
    said = [f"{source.records:,} records", "done" if source.ended else f"{rate:,.0f}/s"]
    said.append("" if source.event_time is None else time_text(source.event_time))
    part = percent(source)
    said.append("" if part is None else f"{part} %")
    return said


def percent(source: SourceProgress) -> int | None:
    """Return how much of a source has been read; None where its size isn't known. 100 only at its end."""
    if source.ended:
        return 100
    if not source.bytes_total or source.bytes_read is None:
        return None
    return min(99, 100 * source.bytes_read // source.bytes_total)


def time_text(milliseconds: int) -> str:
    """Return a timestamp for people: ISO 8601 in UTC, to the second."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)


@contextmanager
def _live(stream: TextIO) -> Iterator[Show]:
    from rich.console import Console
    from rich.live import Live

    rates = Rates()
    with Live(console=Console(file=stream), refresh_per_second=8, transient=True) as live:
        yield lambda progress: live.update(_table(progress, rates.of(progress)))


def _table(progress: Progress, rates: Mapping[str, float]) -> Table:
    from rich.table import Table

    table = Table("source", "records", "rate", "event time", "read", box=None, pad_edge=False)
    for column in (1, 2, 4):
        table.columns[column].justify = "right"
    for source in progress.sources:
        records, rate, event_time, part = cells(source, rates[source.topic])
        table.add_row(source.topic, records.removesuffix(" records"), rate, event_time, part)
    table.caption = f"{time.strftime('%H:%M:%S', time.gmtime(progress.seconds))}   Ctrl-C commits and stops"
    table.caption_justify = "left"
    return table


def summary_text(job: str, summary: Summary) -> str:
    """Return what a run did, for people."""
    if summary.already_finished:
        return (
            f"{job} has finished already: all its sources were read to their ends. There is nothing to do. "
            f"`raystreams reset` forgets that, and its state"
        )
    lines = [f"{job} finished in {summary.seconds:.1f} s"]
    lines += _counts("read", summary.sources)
    lines += _counts("written", summary.sinks)
    lines += _counts("dropped", {f"{operator}: {reason}": n for (operator, reason), n in summary.dropped.items()})
    lines += _counts("dead letters", {f"{topic}: {reason}": n for (topic, reason), n in summary.dead_letters.items()})
    return "\n".join(lines)


def summary_data(job: str, summary: Summary) -> dict[str, Any]:
    """Return what a run did, for programs."""
    return {
        "job": job,
        "seconds": round(summary.seconds, 3),
        "already_finished": summary.already_finished,
        "sources": dict(summary.sources),
        "sinks": dict(summary.sinks),
        "dropped": [{"operator": o, "reason": r, "count": n} for (o, r), n in summary.dropped.items()],
        "dead_letters": [{"topic": t, "reason": r, "count": n} for (t, r), n in summary.dead_letters.items()],
    }


def _counts(what: str, counts: Mapping[str, int]) -> Iterator[str]:
    width = max((len(f"{count:,}") for count in counts.values()), default=0)
    for number, (name, count) in enumerate(counts.items()):
        yield f"  {what if number == 0 else '':12} {count:>{width},} {name}"
