"""A standby: a copy of a task's database that takes each commit of the task. It runs nothing.

It follows one incarnation at a time, the latest that it knows; what an older one sends is refused. While a copy comes in, it is
in a folder beside, so half a copy is never taken for a whole one. Source: design, section 11.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from raystreams.cluster.replication import Lineage, Replicate, Replicated
from raystreams.cluster.rows import lineage_of
from raystreams.stores.database import TaskDatabase
from raystreams.stores.memory import MemoryEngine


class Place(Protocol):
    """Where a copy lies."""

    def open(self) -> TaskDatabase:
        """Open what is there, or an empty database."""
        ...

    def begin(self) -> TaskDatabase:
        """Open an empty database beside, to copy into."""
        ...

    def replace(self) -> None:
        """Both are closed: the one beside takes the place of what was there."""
        ...


class FolderPlace:
    """A folder of a disk."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self._path, self._identity = path, identity
        self._beside = path.with_name(path.name + ".copying")

    def open(self) -> TaskDatabase:
        """Open the folder."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return TaskDatabase.open(self._path, self._identity)

    def begin(self) -> TaskDatabase:
        """Open an empty folder beside."""
        shutil.rmtree(self._beside, ignore_errors=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return TaskDatabase.open(self._beside, self._identity)

    def replace(self) -> None:
        """Rename it. A crash between the two steps leaves none, which is copied anew."""
        shutil.rmtree(self._path, ignore_errors=True)
        self._beside.rename(self._path)


class MemoryPlace:
    """The memory of a process, or of a simulation."""

    def __init__(self, identity: Mapping[str, Any]) -> None:
        self._identity = identity
        self.engine, self._beside = MemoryEngine(), MemoryEngine()

    def open(self) -> TaskDatabase:
        """Open what is there."""
        return TaskDatabase.open(None, self._identity, engine=self.engine)

    def begin(self) -> TaskDatabase:
        """Open an empty one."""
        self._beside = MemoryEngine()
        return TaskDatabase.open(None, self._identity, engine=self._beside)

    def replace(self) -> None:
        """Take the one beside."""
        self.engine = self._beside


class Standby:
    """One copy. Not for several threads at once."""

    def __init__(
        self,
        place: Place,
        *,
        sync: bool = True,
        on_open: Callable[[TaskDatabase], None] = lambda database: None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._place, self._sync, self._on_open, self._on_close = place, sync, on_open, on_close
        self._epoch = 0
        self._asked = (0, 0)
        """(epoch, round) of what was asked last."""
        self._copying: TaskDatabase | None = None
        self._open()

    def _open(self) -> None:
        self.database = self._place.open()
        self.lineage: Lineage = lineage_of(self.database)
        self._on_open(self.database)

    def know(self, epoch: int) -> None:
        """There is an incarnation of the task with this epoch: nothing of an older one is taken any more."""
        self._epoch = max(self._epoch, epoch)

    def handle(self, asked: Replicate) -> Replicated:
        """Do what the task asks."""
        if asked.epoch < self._epoch:
            return Replicated(fenced=True)
        if (asked.epoch, asked.round) < self._asked:
            return Replicated(self.lineage)  # the task has given this call up: it could spoil the next copy
        self._epoch, self._asked = asked.epoch, (asked.epoch, asked.round)
        if asked.what == "copy":
            self._copy(asked)
        for number, operations in asked.commits:
            self._follow(asked.epoch, number, operations)
        return Replicated(self.lineage)

    def _copy(self, asked: Replicate) -> None:
        if asked.first:
            self._stop_copying()
            self._copying = self._place.begin()
        if self._copying is None:
            return  # of a copy that began before this standby did; its lineage will tell
        self._copying.apply([*asked.rows], sync=self._sync and asked.last)
        if asked.last:
            self._copying.close()
            self._copying = None
            self._on_close()
            self.database.close()
            self._place.replace()
            self._open()

    def _follow(self, epoch: int, number: int, operations: Any) -> None:
        if number != self.lineage[1] + 1:
            return  # had already, or something is missing: the lineage tells
        self.database.apply([*operations], sync=self._sync)
        self.lineage = (epoch, number)

    def _stop_copying(self) -> None:
        if self._copying is not None:
            self._copying.close()
            self._copying = None

    def close(self) -> None:
        """Close the files."""
        self._stop_copying()
        self._on_close()
        self.database.close()
