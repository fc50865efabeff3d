"""What a replica stands on: disk, clock, sources. A real one has those of its process; a simulated one those of its world."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from raystreams.cluster.bindings import Bindings
from raystreams.cluster.member import TURN_RECORDS
from raystreams.cluster.ownership import open_owned
from raystreams.cluster.standby import FolderPlace, Place
from raystreams.cluster.task_shell import RunSettings, TaskShell
from raystreams.cluster.wiring import Split
from raystreams.operators.graph import Topology
from raystreams.stores.database import TaskDatabase


class MakeShell(Protocol):
    """Makes what is around a task."""

    def __call__(
        self,
        topology: Topology,
        bindings: Bindings,
        settings: RunSettings,
        partition: int,
        database: TaskDatabase,
        splits: Sequence[Split],
        *,
        wake: Callable[[], None],
        stopping: Callable[[float], bool],
    ) -> TaskShell:
        """As `TaskShell` itself."""
        ...


def _open_owned(path: Path, place: Place) -> TaskDatabase:
    return open_owned(path, place.open)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Those of a process."""

    clock: Callable[[], float] = time.monotonic
    place: Callable[[Path, Mapping[str, Any]], Place] = FolderPlace
    open_task: Callable[[Path, Place], TaskDatabase] = _open_owned
    """Opens a task's database, in the place of any other process that has it."""
    shell: MakeShell = TaskShell
    turn_records: int = TURN_RECORDS


PROCESS = Surroundings()
