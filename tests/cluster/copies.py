"""A task's database, its `Replication` and its standbys, for tests that deliver or lose every request themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from raystreams.cluster.replication import Replicate, Replicated, Replication
from raystreams.cluster.rows import Rows, lineage_of
from raystreams.cluster.standby import FolderPlace, MemoryPlace, Place, Standby
from raystreams.stores.database import TaskDatabase
from raystreams.stores.memory import MemoryEngine

IDENTITY = {"job": "j", "partition": 0, "partitions": 1}

AllBytes = list[tuple[bytes, bytes | None]]


class Copies:
    """One task and the standbys that a test adds; orders are what a manager writes that believes all reports."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.epoch = 0
        self.places: dict[str, Place] = {}
        self.standbys: dict[str, Standby] = {}
        self.written: dict[str, tuple[bool, int]] = {}
        """What the manager has written of each standby: (in sync, round)."""
        self.start()

    def start(self) -> None:
        """Begin the next incarnation of the task, on the same files."""
        self.epoch += 1
        self.database = TaskDatabase.open(None, IDENTITY, engine=self.engine)
        self._lineage, self._store = Rows(self.database, "_task"), self.database.keyspace("store")
        self.replication = Replication(self.epoch, lineage_of(self.database), self.database.rows)
        self.replication.follow(self.written)

    def add(self, name: str = "s", place: Place | None = None) -> Standby:
        """A standby is started, and the task hears of it."""
        self.places[name] = place or MemoryPlace(IDENTITY)
        self.written[name] = (False, 0)
        self.replication.follow(self.written)
        return self.reopen(name)

    def reopen(self, name: str = "s") -> Standby:
        """The process of a standby ends and comes back; what it had copied in part stays where it was."""
        if name in self.standbys:
            self.standbys[name].close()
        standby = self.standbys[name] = Standby(self.places[name])
        return standby

    def commit(self, rows: Mapping[str, str | None]) -> None:
        """The task commits rows; None deletes one."""
        for key, value in rows.items():
            if value is None:
                self._store.delete(key.encode())
            else:
                self._store.put(key.encode(), value.encode())
        lineage = (self.epoch, lineage_of(self.database)[1] + 1)
        self._lineage.put("lineage", value=lineage)
        self.replication.committed(lineage, self.database.commit())

    def due(self) -> Replicate:
        """The one request that leaves the task."""
        ((_, asked),) = self.replication.due()
        return asked

    def answer(self, asked: Replicate, name: str = "s") -> Replicated:
        """A standby handles a request, and its answer arrives."""
        answer = self.standbys[name].handle(asked)
        assert self.replication.answered(name, asked, answer) is not answer.fenced
        return answer

    def settle(self) -> list[str]:
        """All requests are handled until none is due; returns what was asked."""
        asked_for: list[str] = []
        while due := self.replication.due():
            for name, asked in due:
                asked_for.append(asked.what)
                self.answer(asked, name)
        return asked_for

    def write_orders(self) -> None:
        """The manager writes down what the task says of its standbys, and the task hears it."""
        self.written |= {name: (phase == "in sync", round) for name, (phase, round) in self.replication.phases().items()}
        self.replication.follow(self.written)


def rows_of(database: TaskDatabase) -> AllBytes:
    """All committed rows."""
    rows = database.rows()
    try:
        return rows.part(1 << 62)
    finally:
        rows.close()


def place_of(kind: str, folder: Path) -> Place:
    """Where a standby lies: in "memory", or in a "folder"."""
    return MemoryPlace(IDENTITY) if kind == "memory" else FolderPlace(folder / "replica-1" / "00000", IDENTITY)


def followed() -> Copies:
    """A standby that has all, as the manager knows."""
    copies = Copies()
    copies.add()
    copies.commit({"a": "1"})
    copies.settle()
    copies.write_orders()
    return copies


def in_the_middle_of_a_copy(place: Place | None = None) -> Copies:
    """A standby has taken the first parts of a copy, if parts are small."""
    copies = Copies()
    copies.commit({"a": "1", "b": "2", "c": "3"})
    copies.add(place=place)
    copies.answer(copies.due())
    copies.answer(copies.due())
    copies.answer(copies.due())
    return copies
