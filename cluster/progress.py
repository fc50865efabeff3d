"""What a run tells while it goes, and at its end. The runner makes these; the terminal (`cli`) and tests read them.

Numbers are of this run, not of the job's whole life, but for `bytes_read`, which counts what earlier runs had read too,
so that a percentage is of the whole source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """How far a source is: all its splits together. Times are milliseconds since the epoch."""

    topic: str
    records: int
    event_time: int | None = None
    """The largest timestamp read so far."""
    bytes_read: int | None = None
    bytes_total: int | None = None
    """None: the size isn't known, or the source never ends."""
    ended: bool = False


def merged(topics: Iterable[str], of_tasks: Iterable[Sequence[SourceProgress]]) -> list[SourceProgress]:
    """How far each source is, from how far each task is with its splits; a topic that none reads any more has ended."""
    by_topic: dict[str, list[SourceProgress]] = {topic: [] for topic in topics}
    for sources in of_tasks:
        for source in sources:
            by_topic.setdefault(source.topic, []).append(source)
    return [_merged(topic, parts) for topic, parts in by_topic.items()]


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of counts by name."""
    sums: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            sums[name] = sums.get(name, 0) + count
    return sums


def _merged(topic: str, parts: Sequence[SourceProgress]) -> SourceProgress:
    sized = [part for part in parts if part.bytes_total is not None]
    known = bool(parts) and len(sized) == len(parts)
    return SourceProgress(
        topic=topic,
        records=sum(part.records for part in parts),
        event_time=max((part.event_time for part in parts if part.event_time is not None), default=None),
        bytes_read=sum(part.bytes_read or 0 for part in parts) if known else None,
        bytes_total=sum(part.bytes_total or 0 for part in sized) if known else None,
        ended=all(part.ended for part in parts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A moment of a run."""

    sources: Sequence[SourceProgress]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run did. `dropped` counts by (operator, reason), `dead_letters` by (topic, reason)."""

    sources: Mapping[str, int] = field(default_factory=dict)
    """Records by topic."""
    sinks: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[tuple[str, str], int] = field(default_factory=dict)
    dead_letters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    seconds: float = 0.0
    already_finished: bool = False
    """An earlier run had come to the end of all sources: this one did nothing."""
