"""What a job's manager and its tasks tell one another: orders of what should be, reports of what is.

Orders are whole and may be repeated, lost or late: a task compares them with what it does. So nothing has to be remembered of a
manager that died, and the next one goes on with the reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from raystreams.cluster.progress import SourceProgress
from raystreams.cluster.wiring import Split

Mode = Literal["run", "pause", "stop", "finish"]
State = Literal["starting", "running", "paused", "stopped", "finished", "failed", "standby"]


class PlannedSplit(msgspec.Struct, frozen=True, array_like=True):
    """A split, as the job's record keeps it."""

    topic: str
    name: str
    index: int
    owner: int
    disorder: int
    partitioned: bool

    @classmethod
    def of(cls, split: Split) -> PlannedSplit:
        """Return the written form of a split."""
        return cls(split.topic, split.name, split.index, split.owner, split.disorder, split.partitioned)

    def split(self) -> Split:
        """Return the split."""
        return Split(
            topic=self.topic, name=self.name, index=self.index, owner=self.owner, disorder=self.disorder,
            partitioned=self.partitioned,
        )  # fmt: skip


class Peer(msgspec.Struct, frozen=True, array_like=True):
    """The actor that is a task now."""

    name: str
    epoch: int


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What an actor should be."""

    incarnation: int
    """Of the manager; orders of an earlier one are not followed."""
    epoch: int
    """Of the task. The actor that `owner` names is the task, under this epoch; others are its standbys."""
    owner: str
    mode: Mode = "run"
    splits: Sequence[PlannedSplit] | None = None
    """None: none are known yet, and the actor has to find them."""
    peers: Mapping[int, Peer] = {}
    standbys: Mapping[str, tuple[bool, int]] = {}
    """By actor: whether it is in sync, and the last loss that the manager knows (`replication`)."""
    loops_ended: int = 0
    """How often loops were ended: one more than before says to end them again."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an actor is."""

    state: State
    epoch: int = 0
    error: str | None = None
    lost_state: bool = False
    """It failed since its files are damaged: another copy may go on."""
    found_splits: Sequence[PlannedSplit] | None = None
    is_done: bool = False
    """All inputs have ended, nothing is unacknowledged, every sink has written its last batch."""
    is_quiet: bool = False
    """All sources have ended and nothing is on its way, though loops may not have ended."""
    activity: int = 0
    """Changes with everything that is done. Read after `is_quiet`."""
    standbys: Mapping[str, tuple[str, int]] = {}
    """(phase, round) of each standby."""
    commits: int = 0
    processed: int = 0
    event_time: int | None = None
    waiting: int = 0
    """Records that have come and are not processed."""
    unacknowledged: int = 0
    held_up: bool = False
    """Sources wait, since what they feed is full."""
    sent: Mapping[int, int] = {}
    """By peer: records that it has taken."""
    sources: Sequence[SourceProgress] = ()
    taken: Mapping[str, int] = {}
    """By topic: records that were processed, ever; so are the other counts."""
    sinks: Mapping[str, int] = {}
    dropped: Sequence[tuple[str, str, int]] = ()
    dead_letters: Sequence[tuple[str, str, int]] = ()
    already_finished: bool = False
    lineage: tuple[int, int] = (0, 0)
