"""What a task answers: scans of one moment, page after page, and none that is kept for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from raystreams.cluster import task_reads
from raystreams.cluster.errors import NotAvailableError
from raystreams.cluster.task_reads import ReadRequest, TaskReads
from raystreams.stores.database import TaskDatabase

from tests.cluster.remote_jobs import HANDLES, Tasks, listed

WHEN = datetime.fromtimestamp(1.2, timezone.utc)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_scan_is_of_one_moment_while_commits_go_on(on_disk: bool, tmp_path: Path) -> None:
    tasks = Tasks(3, tmp_path if on_disk else None)
    tasks.fill()
    wanted = listed(tasks.embedded("kv").all())
    source = tasks.driver.input_topic("in")
    with tasks.remote(HANDLES["kv"]).all() as rows:
        seen = []
        for number, row in enumerate(rows):
            seen.append(row)
            source.send(1000 + number, key=f"key{10 - number}", timestamp=2000)
            source.send(1000 + number, key=f"new{number}", timestamp=2000)

    assert seen == wanted
    assert len(listed(tasks.remote(HANDLES["kv"]).all())) > len(wanted)
    tasks.close()


def test_a_scan_that_nobody_goes_on_with_is_let_go_of() -> None:
    now = [0.0]
    tasks = Tasks(3, clock=lambda: now[0])
    tasks.fill()
    rows = tasks.remote(HANDLES["windows"]).all()
    now[0] = task_reads.KEPT - 1
    first = [next(rows) for _ in range(20)]
    now[0] += task_reads.KEPT

    with pytest.raises(NotAvailableError, match="Ask again") as raised:
        list(rows)
    assert len(first) == 20
    assert raised.value.retry
    for reads in tasks.reads:
        reads.expire()
    assert tasks.open_scans == 0
    rows.close()
    tasks.close()


def test_a_task_keeps_a_limited_number_of_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_reads, "SCANS", 2)
    tasks = Tasks(1)
    tasks.fill()
    store = tasks.remote(HANDLES["windows"], timeout=0.05)
    open_ones = [store.all(), store.all()]
    with pytest.raises(NotAvailableError, match="2 scans wait") as raised:
        store.all()

    assert raised.value.retry
    assert len(list(open_ones[0])) == len(list(open_ones[1])) > 10
    with store.all() as rows:
        next(rows)
    tasks.close()


def test_a_cursor_of_an_earlier_task_is_not_taken_for_one_of_this() -> None:
    tasks = Tasks(1)
    tasks.fill()
    rows = tasks.remote(HANDLES["windows"]).all()
    again = TaskReads(tasks.driver.topology, lambda: tasks.driver._tasks[0].database, partitions=1)
    other = again.read(ReadRequest(store="windows", method="all", page=2))
    tasks.reads[0].read = again.read  # type: ignore[method-assign]  # the task has come back

    with pytest.raises(NotAvailableError):
        list(rows)
    assert again.read(ReadRequest(cursor=other.cursor)).rows
    again.close()
    tasks.close()


def test_close_waits_for_running_reads_and_refuses_later_ones() -> None:
    tasks = Tasks(1)
    tasks.fill()
    entered, leave = threading.Event(), threading.Event()

    def database() -> Any:
        entered.set()
        leave.wait(5)
        return tasks.driver._tasks[0].database

    reads = TaskReads(tasks.driver.topology, database, partitions=1)
    with ThreadPoolExecutor(2) as pool:
        read = pool.submit(reads.read, ReadRequest(store="windows", method="all", page=2))
        entered.wait(5)
        closed = pool.submit(reads.close)
        waits = not wait([closed], 0.02).done
        leave.set()
        assert read.result(5).rows
        closed.result(5)

    assert waits
    assert reads.open_scans == 0
    with pytest.raises(NotAvailableError, match="closed"):
        reads.read(ReadRequest(store="kv", method="all"))
    tasks.close()


def test_many_threads_read_one_store_while_the_task_commits(tmp_path: Path) -> None:
    tasks = Tasks(3, tmp_path)
    tasks.fill()
    store = tasks.remote(HANDLES["kv"])
    counts = sorted(listed(tasks.embedded("kv").all()))

    def read() -> int:
        for _ in range(10):
            found = listed(store.range("key0", "key9"))
            assert [key for key, _ in found] == [key for key, _ in counts]
            assert store.get("key3") >= dict(counts)["key3"]
        return 1

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        source = tasks.driver.input_topic("in")
        for number in range(40):
            source.send(1000 + number, key=f"key{number % 11}", timestamp=1500)

        assert sum(reader.result(20) for reader in readers) == 4
    assert tasks.open_scans == 0
    tasks.close()


def test_large_values_make_short_pages(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_reads, "PAGE_BYTES", 1)
    read = tasks.reads[0].read(ReadRequest(store="windows", method="all"))

    assert len(read.rows or ()) == 1
    assert read.cursor is not None


def test_a_store_that_a_standby_has_not_got_yet_is_not_available() -> None:
    tasks = Tasks(1)
    with TaskDatabase.open(None, {"job": "test"}) as empty:
        reads = TaskReads(tasks.driver.topology, lambda: empty, partitions=1)
        with pytest.raises(NotAvailableError, match="not been committed"):
            reads.read(ReadRequest(store="kv", method="all"))
        empty.close()
        with pytest.raises(NotAvailableError):
            reads.read(ReadRequest(store="kv", method="all"))
    tasks.close()
