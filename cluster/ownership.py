"""One process has a partition's database open. One that has been replaced, and does not know it, is ended.

LevelDB's lock is what makes it one. Beside the database lies who holds it:

    00003.owner    {"host": ..., "pid": ...}

A process that was stopped (SIGSTOP) or is stuck holds the lock for ever, though the job's manager has long given its partition
to another one. On the same host that one may end it; on another host it waits, and then says who has the lock.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from raystreams.cluster.state_dir import owner_file
from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import StateLockedError

PATIENCE = 5.0
"""Seconds for the process before this one to end."""


class _Owner(msgspec.Struct):
    host: str
    pid: int


def open_owned(path: Path, open: Callable[[], TaskDatabase]) -> TaskDatabase:
    """Open the database of a task that was put in the place of any other; StateLockedError if that other one goes on."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            database = open()
            break
        except StateLockedError:
            if time.monotonic() > end:
                raise
            _end_owner(path)
            time.sleep(0.05)
    owner_file(path).write_bytes(msgspec.json.encode(_Owner(socket.gethostname(), os.getpid())))
    return database


def _end_owner(path: Path) -> None:
    try:
        owner = msgspec.json.decode(owner_file(path).read_bytes(), type=_Owner)
    except (OSError, msgspec.DecodeError):
        return
    if owner.host == socket.gethostname() and owner.pid != os.getpid() and _is_of_ray(owner.pid):
        os.kill(owner.pid, signal.SIGKILL)


def _is_of_ray(pid: int) -> bool:
    """Whether a process is a Ray worker: another one may have got the number of one that ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::")
    except OSError:
        return False
