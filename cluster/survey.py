"""What each node has of a job's state, looked at before the job starts: functions that run on the nodes, and what follows.

    look       makes the state directory, leaves a marker in it, lists the copies of partitions there with their lineages
    markers    which markers are there: nodes that see each other's have one disk

The copy of a partition with the latest lineage is the one that counts. Where some partitions have state and others have none,
some are lost: the job is refused, with their numbers, rather than begun anew in part.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.rows import lineage_of
from raystreams.cluster.state_dir import copies_in, task_identity
from raystreams.cluster.user_code import message_of
from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import CorruptedStoreError, RaystreamsError, StateLockedError

LOCKED_SECONDS = 5.0
"""So long a process of an earlier start may take to end."""


class Found(msgspec.Struct, frozen=True):
    """A copy of a partition."""

    partition: int
    path: str
    lineage: tuple[int, int]


class Look(msgspec.Struct, frozen=True):
    """What a node has."""

    found: Sequence[Found] = ()
    error: str | None = None


def look(state_dir: str, job: str, partitions: int, marker: str) -> Look:
    """List what is in the state directory of this node, and leave a marker there. Errors come back as text."""
    folder = Path(state_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / marker).touch()
        found = [_found(path, job, partitions) for path in copies_in(folder)]
    except RaystreamsError as error:
        return Look(error=str(error))
    except OSError as error:
        if isinstance(error, PermissionError) or not os.access(folder, os.W_OK):
            return Look(error=f"the state directory {state_dir} can't be written: {message_of(error)}")
        return Look(error=message_of(error))
    return Look(found=[one for one in found if one is not None])


def _found(path: Path, job: str, partitions: int) -> Found | None:
    partition = int(path.name)
    end = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            with TaskDatabase.open(path, task_identity(job, partition, partitions)) as database:
                return Found(partition, str(path), lineage_of(database))
        except StateLockedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        except CorruptedStoreError:
            if path.parent.name.startswith("replica-"):
                return None
            # Another copy may be whole; if none is, the task says what is damaged.
            return Found(partition, str(path), (0, 0))


def markers(state_dir: str, prefix: str) -> list[str]:
    """List the markers that this node sees, and delete none."""
    return sorted(path.name for path in Path(state_dir).glob(f"{prefix}*"))


def forget_markers(state_dir: str, prefix: str) -> None:
    """Delete the markers."""
    for path in Path(state_dir).glob(f"{prefix}*"):
        path.unlink(missing_ok=True)


def groups(seen: Mapping[str, Sequence[str]], marker_of: Mapping[str, str]) -> list[list[str]]:
    """Return the groups of nodes that have one state directory; `seen` are the markers that each node sees."""
    made: list[list[str]] = []
    for node in sorted(seen):
        if not any(node in group for group in made):
            made.append(sorted(other for other in seen if marker_of[other] in seen[node]))
    return made


def state_of(
    looks: Mapping[str, Look], shared: Sequence[Sequence[str]], partitions: int, state_dir: str
) -> list[tuple[str, set[str]] | None]:
    """For each partition, where its state is: (path, the nodes that see it); None for all if the job has none.

    ConfigError if a node can't take part, or if some partitions are missing.
    """
    for node, look in looks.items():
        if look.error is not None:
            raise ConfigError(f"node {node[:8]}: {look.error}")
    best: dict[int, tuple[tuple[int, int], str, str]] = {}
    for node, look in looks.items():
        for found in look.found:
            # Of equals the plain folder, which the embedded runner uses too.
            known = best.get(found.partition)
            if known is None or (found.lineage, -len(found.path)) > (known[0], -len(known[1])):
                best[found.partition] = (found.lineage, found.path, node)
    if not best:
        return [None] * partitions
    missing = [partition for partition in range(partitions) if partition not in best]
    if missing:
        raise ConfigError(
            f"the state of partitions {', '.join(map(str, missing))} is missing: no node that is in the cluster now has it in "
            f"{state_dir}. Bring back the node that has it, restore the folder, or begin anew: `raystreams reset`"
        )
    group_of = {node: set(group) for group in shared for node in group}
    return [(best[partition][1], group_of.get(best[partition][2], {best[partition][2]})) for partition in range(partitions)]
