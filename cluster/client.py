"""`connect`: a running job of a Ray cluster, to read its stores from any process.

    with connect("fraud") as job:
        job.store(PROFILES).get("4711")
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Any

from raystreams.cluster.errors import NotAvailableError
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

    NotAvailableError without `retry` if there is no such job, or no cluster.
    """
    import ray
    from raystreams.cluster.ray_directory import RayDirectory

    # A plain import once names.py is in the tree; until then type checkers would not find it.
    names = import_module("raystreams.cluster.names")
    joined = not ray.is_initialized()
    if joined:
        try:
            ray.init(address=address or "auto", namespace=names.NAMESPACE, log_to_driver=False)
        except ConnectionError as error:
            raise NotAvailableError(f"there is no Ray cluster to find the job {job!r} in: {error}", False) from error
    leave: Callable[[], None] = ray.shutdown if joined else lambda: None
    try:
        return Client(RayDirectory(job, names.manager_name(job), names.NAMESPACE), leave)
    except BaseException:
        leave()
        raise
