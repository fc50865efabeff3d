"""Ray clusters of several nodes in this machine, for tests that kill parts of them."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.cluster_utils import Cluster
from raystreams.cluster import submission
from raystreams.cluster.names import NAMESPACE, manager_name
from raystreams.cluster.ray_records import RayRecords
from raystreams.cluster.state_dir import owner_file
from raystreams.cluster.statuses import JobStatus

CPUS = 8.0


class Machines:
    """A head without CPUs, and nodes that can be killed."""

    def __init__(self, nodes: int) -> None:
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.nodes: list[Any] = []
        for _ in range(nodes):
            self.add()
        self.address: str = self._cluster.address
        ray.init(address=self.address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)

    def add(self) -> Any:
        """Start a node."""
        node = self._cluster.add_node(num_cpus=CPUS)
        self.nodes.append(node)
        return node

    def raylet(self, id: str) -> int:
        """The process of a node's Ray."""
        node = next(node for node in self.nodes if node.node_id == id)
        pid: int = node.all_processes["raylet"][0].process.pid
        return pid

    def lose(self, id: str) -> None:
        """Kill a node's Ray; the processes of its actors live on."""
        os.kill(self.raylet(id), signal.SIGKILL)
        self.nodes = [node for node in self.nodes if node.node_id != id]

    def close(self) -> None:
        """End everything that was started."""
        ray.shutdown()
        self._cluster.shutdown()  # type: ignore[no-untyped-call]


@contextmanager
def machines(nodes: int = 3) -> Iterator[Machines]:
    """A cluster for the time of a with-block."""
    made = Machines(nodes)
    try:
        yield made
    finally:
        made.close()


def pid_of_task(job: str, partition: int) -> int:
    """The process that has a partition's database open."""
    record = RayRecords().load(job)
    assert record is not None
    task = record.tasks[partition]
    owner = owner_file(Path(task.copies[task.owner].path)).read_bytes()
    pid: int = msgspec.json.decode(owner)["pid"]
    return pid


def pid_of_manager(job: str) -> int:
    """The process of a job's manager."""
    manager = ray.get_actor(manager_name(job), namespace=NAMESPACE)
    pid: int = ray.get(manager.pid.remote(), timeout=20)
    return pid


def kill(pid: int) -> None:
    """Kill a process, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait_for(job: str, condition: Callable[[JobStatus], bool], *, seconds: float = 60) -> JobStatus:
    """Wait for a status of a job."""
    end = time.monotonic() + seconds
    while True:
        status = submission.status(job)
        if condition(status):
            return status
        assert time.monotonic() < end, f"it did not come to that within {seconds} s: {status}"
        time.sleep(0.05)


def all_in_sync(status: JobStatus) -> bool:
    """Whether each task works and has its standbys in sync."""
    return status.state == "running" and all(
        task.state == "running" and task.standbys and set(task.standbys.values()) == {"in sync"} for task in status.tasks
    )
