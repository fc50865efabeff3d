"""Where a job's state lies: one folder a partition, each a TaskDatabase of its own.

    state_dir/00000, state_dir/00001 ...
    state_dir/replica-1/00000 ...            other copies, of a job that has run in a cluster with standbys, or was moved

Where a partition has several copies on this disk, the one with the latest lineage counts: in a cluster a standby may have become
the task. So a job may run in a cluster today and embedded tomorrow.

A database knows whose it is: the job, its partition, the number of partitions. Opening it as another's is a
StoreMismatchError that names the difference. To look at the state of a stopped job its databases are opened as the job opens
them; nothing is committed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from raystreams.cluster.errors import NotAvailableError
from raystreams.cluster.rows import lineage_of
from raystreams.stores.database import DatabaseSettings, TaskDatabase
from raystreams.stores.errors import CorruptedStoreError, StoreMismatchError

CODE = ".code"
"""What of a state directory holds the code of a job that a cluster runs."""


def owner_file(path: Path) -> Path:
    """Return the file beside a database that tells which process has it open."""
    return path.with_name(path.name + ".owner")


def copy_path(state_dir: Path, partition: int, number: int) -> Path:
    """Return the folder of a copy of a partition's database; number 0 is the plain one."""
    return (state_dir if number == 0 else state_dir / f"replica-{number}") / f"{partition:05}"


def copies_in(state_dir: Path, partition: int | None = None) -> list[Path]:
    """Return the folders of all copies on this disk, of all partitions for None, plain ones first."""
    name = "[0-9]" * 5 if partition is None else f"{partition:05}"
    found = (*sorted(state_dir.glob(name)), *sorted(state_dir.glob(f"replica-*/{name}")))
    return [path for path in found if path.is_dir()]


def task_identity(job: str, partition: int, partitions: int) -> Mapping[str, Any]:
    """Return what a task's database keeps about whose it is."""
    return {"job": job, "partition": partition, "partitions": partitions}


def open_partition(
    state_dir: Path, job: str, partition: int, partitions: int, *, settings: DatabaseSettings | None = None
) -> TaskDatabase:
    """Open or make the database of a partition."""
    # LevelDB knows by its path that another thread of this process has it open: one path, one spelling.
    state_dir = state_dir.resolve()
    state_dir.mkdir(parents=True, exist_ok=True)
    identity = task_identity(job, partition, partitions)
    copies = copies_in(state_dir, partition) or [copy_path(state_dir, partition, 0)]
    path = copies[0] if len(copies) == 1 else _latest(copies, identity)
    return TaskDatabase.open(path, identity, settings=settings)


def _latest(copies: Sequence[Path], identity: Mapping[str, Any]) -> Path:
    """The copy with the latest lineage. One that is damaged does not count, unless none is whole."""
    lineages: dict[Path, tuple[int, int]] = {}
    for path in copies:
        try:
            with TaskDatabase.open(path, identity) as database:
                lineages[path] = lineage_of(database)
        except CorruptedStoreError:
            continue
    return max(lineages, key=lambda path: lineages[path], default=copies[0])


def has_state(state_dir: Path | None) -> bool:
    """Tell whether a job has run with this state directory."""
    return state_dir is not None and bool(copies_in(state_dir, 0))


@contextmanager
def stopped(state_dir: Path | None, job: str, partitions: int) -> Iterator[list[TaskDatabase]]:
    """Open the databases of a stopped job, by partition, to read them.

    NotAvailableError if there are none, StateLockedError if the job runs, StoreMismatchError if they are another's.
    """
    if state_dir is None:
        raise NotAvailableError(f"the job {job!r} keeps its state in memory; give it a state_dir to ask it afterwards")
    if not has_state(state_dir):
        raise NotAvailableError(f"the job {job!r} has no state in {state_dir}: it has not run yet")
    with ExitStack() as stack:
        # The first folder tells whose state it is; only then is one that isn't there a folder that is lost.
        open_partition(state_dir, job, 0, partitions).close()
        lost = [f"{number:05}" for number in range(partitions) if not copies_in(state_dir, number)]
        if lost:
            text = f"the state in {state_dir} lacks {', '.join(lost)}: the job was stopped before it made them, or they are lost"
            raise NotAvailableError(f"{text}. Run it again, or restore all folders from one copy")
        yield [stack.enter_context(open_partition(state_dir, job, number, partitions)) for number in range(partitions)]


def forget(state_dir: Path, job: str, partitions: int) -> int:
    """Delete the state and positions of a stopped job; return how many partitions it had. Other files there are left alone.

    Also what no run would take: a damaged state, or one of another number of partitions. Never that of another job.
    """
    folders = copies_in(state_dir)
    with ExitStack() as stack:
        for folder in folders:
            try:
                stack.enter_context(TaskDatabase.open(folder.resolve(), task_identity(job, int(folder.name), partitions)))
            except CorruptedStoreError:
                continue
            except StoreMismatchError as error:
                if error.what != "partitions":
                    raise
    for folder in folders:
        shutil.rmtree(folder)
        owner_file(folder).unlink(missing_ok=True)
    for folder in (*state_dir.glob("replica-*"), state_dir):
        shutil.rmtree(folder / CODE, ignore_errors=True)
    return len({folder.name for folder in folders})
