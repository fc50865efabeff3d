"""What a run tells while it goes, and at its end. The runner makes these; the terminal (`cli`) and tests read them.

Numbers are of this run, not of the job's whole life, but for `bytes_read`, which counts what earlier runs had read too,
so that a percentage is of the whole source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
