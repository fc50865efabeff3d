"""A client over real actors: what it finds, what it raises, and that it follows a task that moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import ray
from raystreams.cluster import client
from raystreams.cluster.client import Client, connect
from raystreams.cluster.errors import NotAvailableError
from raystreams.cluster.ray_directory import RayDirectory
from raystreams.cluster.remote_store import RemoteStore
from raystreams.cluster.task_reads import ReadRequest, ReadResponse

from tests.cluster.remote_jobs import HANDLES, KEYS, TABLE, Tasks, listed

pytestmark = pytest.mark.slow
NAMESPACE, PARTITIONS = "test-of-clients", 2


class Place(NamedTuple):
    name: str
    epoch: int
    standbys: tuple[str, ...] = ()


class Task:
    """A task actor that only answers reads."""

    def __init__(self, partition: int) -> None:
        tasks = Tasks(PARTITIONS)
        tasks.fill()
        self._reads = tasks.reads[partition]

    def read(self, request: ReadRequest) -> ReadResponse:
        return self._reads.read(request)


class Manager:
    """Starts a task of the next epoch for each that is told to be lost."""

    def __init__(self) -> None:
        self._epochs = dict.fromkeys(range(PARTITIONS), 0)
        self._actors = [self._start(partition) for partition in range(PARTITIONS)]

    def _name(self, partition: int) -> str:
        return f"task-{partition}-{self._epochs[partition]}"

    def _start(self, partition: int) -> Any:
        remote: Any = ray.remote(Task)
        made = remote.options(name=self._name(partition), namespace=NAMESPACE, num_cpus=0, max_concurrency=4)
        return made.remote(partition)

    def places(self) -> dict[int, Place]:
        return {partition: Place(self._name(partition), epoch) for partition, epoch in self._epochs.items()}

    def lose(self, partition: int) -> None:
        ray.kill(self._actors[partition])
        self._epochs[partition] += 1
        self._actors[partition] = self._start(partition)


@pytest.fixture(scope="module")
def manager() -> Iterator[Any]:
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, namespace=NAMESPACE)
    remote: Any = ray.remote(Manager)
    made = remote.options(name="manager", namespace=NAMESPACE, num_cpus=0).remote()
    ray.get(made.places.remote())
    yield made
    ray.shutdown()


def test_connect_finds_a_job_by_its_name_and_stays_in_the_callers_cluster(
    manager: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "NAMESPACE", NAMESPACE)
    monkeypatch.setattr(client, "manager_name", {"job": "manager", "other": "no manager"}.__getitem__)
    with connect("job") as found:
        assert found.store("kv").get("key3") is not None
    with pytest.raises(NotAvailableError, match="no job 'other'") as raised:
        connect("other")

    assert not raised.value.retry
    assert ray.is_initialized()


def test_a_client_reads_what_a_job_in_the_process_reads(manager: Any) -> None:
    local = Tasks(PARTITIONS)
    local.fill()
    with Client(RayDirectory("job", "manager", NAMESPACE)) as client:
        store = client.store(HANDLES["kv"], timeout=60)
        windows = RemoteStore(RayDirectory("job", "manager", NAMESPACE), HANDLES["windows"], page=2)

        assert store.get_many(KEYS) == local.embedded("kv").get_many(KEYS)
        assert asyncio.run(store.aget("key3")) == store.get("key3") == local.embedded("kv").get("key3")
        assert listed(client.store(TABLE).reverse_all()) == listed(local.embedded("table").reverse_all())
        assert listed(windows.all()) == listed(local.embedded("windows").all())
    local.close()


def test_what_a_task_raises_arrives_as_it_was(manager: Any) -> None:
    client = Client(RayDirectory("job", "manager", NAMESPACE))

    with pytest.raises(ValueError, match="did you mean 'windows'") as raised:
        client.store("windos")
    assert type(raised.value) is ValueError


def test_a_read_follows_a_task_that_moves(manager: Any) -> None:
    store = Client(RayDirectory("job", "manager", NAMESPACE)).store(HANDLES["kv"], timeout=60)
    before = listed(store.all())
    ray.get(manager.lose.remote(1))

    assert listed(store.all()) == before
    assert asyncio.run(store.aget_many(KEYS)) == dict(before)


def test_a_scan_of_a_task_that_is_lost_says_to_begin_again(manager: Any) -> None:
    store = RemoteStore(RayDirectory("job", "manager", NAMESPACE), HANDLES["windows"], page=2, timeout=60)
    with store.all() as rows:
        next(rows)
        ray.get(manager.lose.remote(0))

        with pytest.raises(NotAvailableError) as raised:
            list(rows)
    assert raised.value.retry
    assert len(listed(store.all())) > 20
