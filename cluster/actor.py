"""The Ray actor of one copy of a partition: it passes mail between Ray and the replica's thread, and decides nothing.

    report(orders)     from the manager, again and again: what this should be; answers what it is
    exchange(packet)   from peers; the answer comes from the replica's thread
    replicate(asked)   from the task that a standby follows
    read(request)      from clients, on threads of their own

Only the manager starts such actors (`max_restarts=0`), each under a name of its own. An actor whose node's Ray is dead, or whose
place another has taken, ends itself: Ray lets such processes live on.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ray
from raystreams.cluster import links
from raystreams.cluster.code_bundle import open_bundle
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.job import Job
from raystreams.cluster.links import Packet, Reply
from raystreams.cluster.log_lines import Line, LogLines
from raystreams.cluster.names import NAMESPACE
from raystreams.cluster.orders import Orders, Report
from raystreams.cluster.ray_records import RayRecords
from raystreams.cluster.replica import Replica
from raystreams.cluster.replication import Replicate, Replicated
from raystreams.cluster.state_dir import CODE
from raystreams.cluster.task_reads import ReadRequest, ReadResponse

READERS = 4
"""Threads that answer reads."""


class TaskActor:
    """A copy of a partition, in a process of its own."""

    def __init__(self, job: str, name: str, partition: int, path: str) -> None:
        self._lines = LogLines()
        self._lines.take_over()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="read")
        wires = _RayWires(lambda *mail: self._replica.post(*mail))
        self._replica = Replica(lambda: _open_job(job, path), name, partition, Path(path), wires)
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        threading.Thread(target=end_with, args=(os.getppid(),), name="watch", daemon=True).start()

    def _work(self) -> None:
        self._replica.run()
        os._exit(0)

    async def report(self, orders: Orders) -> Report:
        """Take orders, and say how it is."""
        self._replica.post("orders", orders)
        return self._replica.report()

    async def exchange(self, packet: bytes) -> bytes:
        """Take a peer's packet."""
        reply: Reply = await self._asked("packet", packet)
        return links.encode(reply)

    async def replicate(self, asked: Replicate) -> Replicated:
        """Take what the task of this standby has committed."""
        answer: Replicated = await self._asked("replicate", asked)
        return answer

    async def read(self, request: ReadRequest) -> ReadResponse:
        """Answer a read of what is committed."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._replica.read, request)

    async def logs(self, after: int) -> list[Line]:
        """The last lines that were printed or logged here, after one."""
        return self._lines.after(after)

    async def _asked(self, kind: str, what: Any) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def respond(value: Any) -> None:
            loop.call_soon_threadsafe(_settle, answer, value)

        self._replica.post(kind, what, respond)
        return await answer


def _settle(answer: asyncio.Future[Any], value: Any) -> None:
    if not answer.done():
        answer.set_result(value)


def _open_job(job: str, path: str) -> Job:
    bundle = RayRecords().bundle(job)
    if bundle is None:
        raise ConfigError(f"the cluster has no code of the job {job!r}: submit it again")
    return open_bundle(bundle, Path(path).parent / CODE)


def end_with(parent: int) -> None:
    """End this process when its parent, the node's Ray, has ended."""
    while os.getppid() == parent:
        time.sleep(0.25)
    os._exit(1)


class _RayWires:
    """Sends by actor calls; what comes of them is posted."""

    def __init__(self, post: Callable[..., None]) -> None:
        self._post = post
        self._handles: dict[str, Any] = {}

    def packet(self, peer: str, packet: Packet) -> None:
        """Call a peer's `exchange`."""

        def done(answer: Future[bytes]) -> None:
            failed = answer.exception() is not None
            if failed:
                self._handles.pop(peer, None)
            self._post("replied", packet, None if failed else links.decode_reply(answer.result()))

        self._call(peer, "exchange", links.encode(packet), done, lambda: self._post("replied", packet, None))

    def request(self, standby: str, asked: Replicate) -> None:
        """Call a standby's `replicate`."""

        def done(answer: Future[Replicated]) -> None:
            failed = answer.exception() is not None
            if failed:
                self._handles.pop(standby, None)
            self._post("replicated", standby, asked, None if failed else answer.result())

        self._call(standby, "replicate", asked, done, lambda: self._post("replicated", standby, asked, None))

    def _call(self, name: str, method: str, argument: Any, done: Callable[[Any], None], failed: Callable[[], None]) -> None:
        try:
            handle = self._handles.get(name)
            if handle is None:
                handle = self._handles[name] = ray.get_actor(name, namespace=NAMESPACE)
            answer = getattr(handle, method).remote(argument).future()
        except (ValueError, ray.exceptions.RayError):
            self._handles.pop(name, None)
            failed()
            return
        answer.add_done_callback(done)
