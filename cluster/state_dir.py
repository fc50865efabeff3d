"""Where a job's state lies: one folder a partition, each a TaskDatabase of its own.

    state_dir/00000, state_dir/00001 ...

A database knows whose it is: the job, its partition, the number of partitions. Opening it as another's is a
StoreMismatchError that names the difference. To look at the state of a stopped job its databases are opened as the job opens
them; nothing is committed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from raystreams.cluster.errors import NotAvailableError
from raystreams.stores.database import DatabaseSettings, TaskDatabase
from raystreams.stores.errors import CorruptedStoreError, StoreMismatchError


def partition_path(state_dir: Path, partition: int) -> Path:
    """Return the folder of a partition's database."""
    return state_dir / f"{partition:05}"


def task_identity(job: str, partition: int, partitions: int) -> Mapping[str, Any]:
    """Return what a task's database keeps about whose it is."""
    return {"job": job, "partition": partition, "partitions": partitions}


def open_partition(
    state_dir: Path, job: str, partition: int, partitions: int, *, settings: DatabaseSettings | None = None
) -> TaskDatabase:
    """Open or make the database of a partition."""
    # LevelDB knows by its path that another thread of this process has it open: one path, one spelling.
    path = partition_path(state_dir.resolve(), partition)
    path.parent.mkdir(parents=True, exist_ok=True)
    return TaskDatabase.open(path, task_identity(job, partition, partitions), settings=settings)


def has_state(state_dir: Path | None) -> bool:
    """Tell whether a job has run with this state directory."""
    return state_dir is not None and partition_path(state_dir, 0).is_dir()


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
        lost = [path.name for path in (partition_path(state_dir, n) for n in range(partitions)) if not path.is_dir()]
        if lost:
            text = f"the state in {state_dir} lacks {', '.join(lost)}: the job was stopped before it made them, or they are lost"
            raise NotAvailableError(f"{text}. Run it again, or restore all folders from one copy")
        yield [stack.enter_context(open_partition(state_dir, job, number, partitions)) for number in range(partitions)]


def forget(state_dir: Path, job: str, partitions: int) -> int:
    """Delete the state and positions of a stopped job; return how many partitions it had. Other files there are left alone.

    Also what no run would take: a damaged state, or one of another number of partitions. Never that of another job.
    """
    folders = sorted(path for path in state_dir.glob("[0-9]" * 5) if path.is_dir())
    with ExitStack() as stack:
        for folder in folders:
            try:
                stack.enter_context(open_partition(state_dir, job, int(folder.name), partitions))
            except CorruptedStoreError:
                continue
            except StoreMismatchError as error:
                if error.what != "partitions":
                    raise
    for folder in folders:
        shutil.rmtree(folder)
    return len(folders)
