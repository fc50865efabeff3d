"""`connect`: a running job of a Ray cluster, to read its stores from any process.

    with connect("fraud") as job:
        job.store(PROFILES).get("4711")
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from raystreams.cluster.names import NAMESPACE, manager_name
from raystreams.cluster.remote_codec import Handle
from raystreams.cluster.remote_requests import Directory
from raystreams.cluster.remote_store import RemoteStore
from typing_extensions import Self


class Client:
    """A running job, read from outside; a context manager."""

    def __init__(self, directory: Directory, close: Callable[[], None] = lambda: None) -> None:
        self._directory, self._close = directory, close

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._directory.job

    def store(self, store: Handle, *, timeout: float = 10.0, stale_ok: bool = False) -> Any:
        """A store of all partitions, to read what is committed, by its handle or name; see `remote_store.py`.

        A handle's types are what keys and values come as, a name gives plain data. ValueError if the job has no such store,
        TypeError if its types are others. While tasks start or move reads wait up to `timeout` seconds, then raise
        NotAvailableError. With `stale_ok` standbys may answer, with what was committed a moment ago.
        """
        return RemoteStore(self._directory, store, timeout=timeout, stale_ok=stale_ok)

    def close(self) -> None:
        """Leave the cluster, if `connect` has joined it."""
        close, self._close = self._close, lambda: None
        close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, t: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def connect(job: str, *, address: str | None = None) -> Client:
    """A running job of the Ray cluster at an address, or of the one that this process is in or finds by itself.

    NotAvailableError without `retry` if there is no such job, ConfigError if there is no cluster.
    """
    from raystreams.cluster.submission import joined

    with ExitStack() as stack:
        stack.enter_context(joined(address))
        return client_of(job, stack.pop_all().close)


def client_of(job: str, close: Callable[[], None] = lambda: None) -> Client:
    """A client of a job of the cluster that this process is in."""
    from raystreams.cluster.ray_directory import RayDirectory

    try:
        return Client(RayDirectory(job, manager_name(job), NAMESPACE), close)
    except BaseException:
        close()
        raise
