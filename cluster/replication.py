"""A task's standbys, seen from the task: each has a commit before anything of it leaves, or the manager knows that it has not.

    meet    how far is it? As far as here: it follows. Otherwise it is copied to
    copy    all rows of one moment, in parts; what is committed meanwhile waits
    follow  the commits after that, in order
    lost    a call failed. Nothing leaves until the manager has taken note that this standby is behind; then they meet again

A standby that has caught up once is waited for from then on: the manager may be writing down at any moment that it is in sync,
and what is in sync may be promoted. So only the manager can let go of it. Each loss has a number, `round`, which orders
echo: an order that was written before the loss does not count as its answer.

Two databases of a task with the same lineage (epoch, number) have the same rows, as an epoch has one writer. Pure: requests
come out of `due`, answers go in. Source: design, sections 6 and 11.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from raystreams.stores.database import AllRows
from raystreams.stores.protocols import Operation

PART_BYTES = 4 << 20
"""Bytes of a part of a copy, or of the commits that are sent at once."""

WAITING_BYTES = 64 << 20
"""Commits that may wait for a copy to end; beyond that the task waits."""

Lineage = tuple[int, int]


class Replicate(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What a task asks a standby: to say how far it is, to take a part of a copy, or commits."""

    epoch: int
    what: Literal["meet", "copy", "follow"]
    first: bool = False
    """The first part of a copy: what was there is forgotten."""
    last: bool = False
    rows: Sequence[tuple[bytes, bytes | None]] = ()
    commits: Sequence[tuple[int, Sequence[tuple[bytes, bytes | None]]]] = ()
    """(number, operations), in order."""
    round: int = 0
    """Losses of this standby so far. What was asked before the last one may come late: it is not done any more."""


class Replicated(msgspec.Struct, frozen=True, array_like=True):
    """How far a standby is after that. `fenced`: it knows a later incarnation of the task."""

    lineage: Lineage = (0, 0)
    fenced: bool = False


class _Follower:
    def __init__(self, name: str) -> None:
        self.name = name
        self.phase: Literal["meet", "copy", "follow", "lost"] = "meet"
        self.in_sync = False
        """Whether the manager has written so."""
        self.caught_up = False
        self.round = 0
        self.met_at: Lineage = (0, 0)
        """How far the task was when it asked to meet, or began to copy: what is committed after that waits."""
        self.copy: AllRows | None = None
        self.first_part = False
        self.waiting: deque[tuple[int, Sequence[Operation], int]] = deque()
        """Commits that it lacks: (number, operations, bytes)."""
        self.bytes = 0
        self.asked: Replicate | None = None

    @property
    def is_waited_for(self) -> bool:
        return (self.in_sync or self.caught_up) and (self.phase == "lost" or bool(self.waiting) or self.phase != "follow")

    def forget_waiting(self) -> None:
        self.waiting.clear()
        self.bytes = 0

    def close(self) -> None:
        if self.copy is not None:
            self.copy.close()
            self.copy = None


class Replication:
    """The standbys of one task."""

    def __init__(self, epoch: int, lineage: Lineage, rows: Callable[[], AllRows]) -> None:
        self._epoch, self._lineage, self._rows = epoch, lineage, rows
        self._followers: dict[str, _Follower] = {}

    def follow(self, standbys: Mapping[str, tuple[bool, int]]) -> None:
        """The standbys that there are: whether each is in sync, and the last loss of it that the manager knows."""
        for name in [name for name in self._followers if name not in standbys]:
            self._followers.pop(name).close()
        for name, (in_sync, round) in standbys.items():
            follower = self._followers.get(name)
            if follower is None:
                follower = self._followers[name] = _Follower(name)
                follower.round = round
            if round != follower.round:
                continue  # written before the last loss
            follower.in_sync = in_sync
            if follower.phase == "lost" and not in_sync:
                follower.phase, follower.caught_up = "meet", False

    def committed(self, lineage: Lineage, operations: Sequence[Operation]) -> None:
        """A commit was written here."""
        self._lineage = lineage
        if not self._followers:
            return
        size = sum(len(key) + len(value or b"") for key, value in operations)
        for follower in self._followers.values():
            if follower.phase != "lost":
                follower.waiting.append((lineage[1], operations, size))
                follower.bytes += size

    @property
    def settled(self) -> bool:
        """Whether all that must have the last commit have it, so that its effects may leave."""
        return not any(f.is_waited_for or f.bytes > WAITING_BYTES for f in self._followers.values())

    def phases(self) -> dict[str, tuple[str, int]]:
        """For the manager: ("in sync", "behind" or "lost", round) of each standby."""
        return {
            f.name: ("lost" if f.phase == "lost" else "in sync" if f.caught_up else "behind", f.round)
            for f in self._followers.values()
        }

    # ---- requests

    def due(self) -> list[tuple[str, Replicate]]:
        """What should be asked now. Each request is on its way until `answered` or `lost`."""
        found = []
        for follower in self._followers.values():
            if follower.asked is None:
                follower.asked = self._next(follower)
                if follower.asked is not None:
                    found.append((follower.name, follower.asked))
        return found

    def _next(self, follower: _Follower) -> Replicate | None:
        if follower.phase == "meet":
            follower.forget_waiting()
            follower.met_at = self._lineage
            return Replicate(epoch=self._epoch, what="meet", round=follower.round)
        if follower.phase == "copy":
            return self._part(follower)
        if follower.phase == "follow" and follower.waiting:
            return Replicate(epoch=self._epoch, what="follow", commits=_commits(follower), round=follower.round)
        return None

    def _part(self, follower: _Follower) -> Replicate:
        if follower.copy is None:
            follower.copy = self._rows()
            follower.met_at = self._lineage
            follower.forget_waiting()
            follower.first_part = True
        rows = follower.copy.part(PART_BYTES)
        first, follower.first_part = follower.first_part, False
        return Replicate(epoch=self._epoch, what="copy", first=first, last=not rows, rows=rows, round=follower.round)

    def answered(self, name: str, asked: Replicate, answer: Replicated) -> bool:
        """An answer has come; False if it says that this task is of the past."""
        follower = self._followers.get(name)
        if follower is None or follower.asked is not asked:
            return not answer.fenced
        follower.asked = None
        if answer.fenced:
            return False
        if asked.what == "meet":
            follower.phase = "follow" if answer.lineage == follower.met_at else "copy"
        elif asked.what == "copy":
            if asked.last:
                follower.close()
                follower.phase = "follow" if answer.lineage == follower.met_at else "copy"
        else:
            self._followed(follower, asked, answer)
        if follower.phase == "follow" and not follower.waiting:
            follower.caught_up = True
        return True

    def _followed(self, follower: _Follower, asked: Replicate, answer: Replicated) -> None:
        last = asked.commits[-1][0]
        if answer.lineage[1] != last:
            self._lose(follower)
            return
        while follower.waiting and follower.waiting[0][0] <= last:
            follower.bytes -= follower.waiting.popleft()[2]

    def lost(self, name: str, asked: Replicate) -> None:
        """A call has failed, or was not answered in time."""
        follower = self._followers.get(name)
        if follower is not None and follower.asked is asked:
            self._lose(follower)

    def _lose(self, follower: _Follower) -> None:
        follower.asked = None
        follower.close()
        follower.forget_waiting()
        follower.round += 1
        # One that nobody waits for needs nobody's leave.
        follower.phase = "lost" if follower.in_sync or follower.caught_up else "meet"

    def close(self) -> None:
        """Let go of copies."""
        for follower in self._followers.values():
            follower.close()


def _commits(follower: _Follower) -> list[tuple[int, Sequence[Operation]]]:
    commits: list[tuple[int, Sequence[Operation]]] = []
    size = 0
    for number, operations, length in follower.waiting:
        commits.append((number, operations))
        size += length
        if size >= PART_BYTES:
            break
    return commits
