"""Reads over requests give what reads in the process give, for every kind of store."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from datetime import datetime, timezone
from typing import Any

import pytest
from raystreams.cluster.client import Client
from raystreams.cluster.errors import NotAvailableError
from raystreams.cluster.task_reads import ReadRequest, read_methods
from raystreams.stores.errors import ClosedStoreError

from tests.cluster.remote_jobs import GLOBAL, HANDLES, KEYS, KINDS, TABLE, Order, Tasks, listed

WHEN = datetime.fromtimestamp(1.2, timezone.utc)

CALLS: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    *[("kv", "get", (key,), {}) for key in KEYS],
    ("kv", "get_many", (KEYS,), {}),
    ("kv", "range", ("key2", "key5"), {}),
    ("kv", "reverse_range", ("key2", "key5"), {}),
    ("kv", "range", (None, "key4"), {}),
    ("kv", "all", (), {}),
    ("kv", "reverse_all", (), {}),
    ("kv", "prefix_scan", ("key1",), {}),
    ("kv", "approximate_num_entries", (), {}),
    *[("tkv", "get", ((key, 1),), {}) for key in KEYS],
    ("tkv", "get_many", ([(key, 2) for key in KEYS],), {}),
    ("tkv", "range", (("key2", 1), ("key5", 0)), {}),
    ("tkv", "all", (), {}),
    ("tkv", "reverse_all", (), {}),
    ("tkv", "reverse_range", (("key2", 1), None), {}),
    ("tkv", "prefix_scan", (("key3",),), {}),
    ("tkv", "approximate_num_entries", (), {}),
    ("table", "get", ("order3",), {}),
    ("table", "all", (), {}),
    ("everywhere", "get", ("name3",), {}),
    ("everywhere", "get_many", (["name1", "no", "name2"],), {}),
    ("everywhere", "all", (), {}),
    ("everywhere", "reverse_range", ("name2", None), {}),
    ("everywhere", "approximate_num_entries", (), {}),
    *[("versions", "get", (key,), {}) for key in KEYS],
    *[("versions", "get", (key,), {"as_of": 1150}) for key in KEYS],
    ("versions", "get", ("key3",), {"as_of": WHEN}),
    ("versions", "get_many", (KEYS,), {}),
    *[("versions", "history", (key,), {}) for key in KEYS[-3:]],
    ("versions", "history", ("key3", 1100, WHEN), {}),
    ("versions", "history", ("key3", 1100), {"end": 1300, "reverse": True}),
    *[("windows", "fetch", (key, 1000 + 10 * number), {}) for key in KEYS[:4] for number in range(40)],
]  # fmt: skip
for name in ("windows", "twindows", "duplicates", "closing"):
    CALLS += [
        (name, "fetch", ("key4", 1000), {}),
        (name, "fetch", ("key4", 1050, 1350), {}),
        (name, "backward_fetch", ("key4", 1050, WHEN), {}),
        (name, "fetch_range", ("key2", "key6", 1020, 1390), {}),
        (name, "backward_fetch_range", ("key2", None, 1020, 1390), {}),
        (name, "fetch_range", (None, None), {"start": 0, "end": 1390}),
        (name, "fetch_all", (1020, WHEN), {}),
        (name, "backward_fetch_all", (1020, 1390), {}),
        (name, "all", (), {}),
        (name, "backward_all", (), {}),
    ]
for name in ("sessions", "ending"):
    CALLS += [
        (name, "fetch", ("key4",), {}),
        (name, "backward_fetch", ("key4",), {}),
        (name, "fetch_session", ("key4", 1000, 1000), {}),
        (name, "fetch_session", ("key7", 1013, 1014), {}),
        (name, "find_sessions", ("key4", 1100, 1300), {}),
        (name, "backward_find_sessions", ("key4", 1100, 1300), {}),
        (name, "fetch_range", ("key2", "key6"), {}),
        (name, "backward_fetch_range", (None, "key6"), {}),
        (name, "find_sessions_range", ("key2", None, 1100, WHEN), {}),
        (name, "backward_find_sessions_range", (None, None, 1100, 1300), {}),
        (name, "find_ended", (1100, 1300), {}),
    ]


def test_all_methods_of_all_kinds_are_compared() -> None:
    kinds = {builder.name: builder.kind for builder in KINDS}
    compared = {(kinds[name], method) for name, method, _, _ in CALLS if name in kinds}

    assert {(kind, method) for kind in kinds.values() for method in read_methods(kind)} == compared


def test_each_method_gives_what_it_gives_in_the_process(tasks: Tasks) -> None:
    handles = {**HANDLES, "table": TABLE, "everywhere": GLOBAL}
    remote = {name: tasks.remote(handle) for name, handle in handles.items()}
    empty = {(name, method) for name, method, _, _ in CALLS}
    for name, method, args, kwargs in CALLS:
        wanted = listed(getattr(tasks.embedded(name), method)(*args, **kwargs))
        if wanted:
            empty.discard((name, method))

        assert listed(getattr(remote[name], method)(*args, **kwargs)) == wanted, (name, method, args, kwargs)
    assert not empty
    assert tasks.open_scans == 0


def test_rows_of_windows_do_not_depend_on_the_number_of_partitions() -> None:
    rows = []
    for partitions in (1, 3):
        tasks = Tasks(partitions)
        tasks.fill()
        stores = [tasks.remote(HANDLES[name]) for name in ("windows", "closing")]
        rows.append([listed(getattr(store, name)()) for store in stores for name in ("all", "backward_all")])
        tasks.close()

    assert rows[0] == rows[1]


# ---- what travels


def test_a_key_is_asked_for_where_it_lives(tasks: Tasks) -> None:
    store = tasks.remote(HANDLES["kv"])
    tasks.sent.clear()

    assert store.get("key3") == tasks.embedded("kv").get("key3")
    [(_, request)] = tasks.sent
    assert request.args == {"key": b"\x04key3\x00\x01"}


def test_get_many_asks_each_partition_once_and_keeps_the_order_of_keys(tasks: Tasks) -> None:
    store = tasks.remote(HANDLES["kv"])
    tasks.sent.clear()

    assert list(store.get_many(iter(KEYS))) == KEYS[:-1]
    assert len(tasks.sent) == len({partition for partition, _ in tasks.sent}) == len(tasks.reads)


def test_pages_are_fetched_as_they_are_needed_and_closed_when_left(tasks: Tasks) -> None:
    with tasks.remote(HANDLES["windows"]).all() as rows:
        tasks.sent.clear()
        next(rows)

        assert tasks.sent == []
        assert tasks.open_scans == len(tasks.reads)
    assert tasks.open_scans == 0
    with pytest.raises(ClosedStoreError):
        next(rows)


# ---- event loops


def test_async_forms_give_what_the_others_give(tasks: Tasks) -> None:
    async def read() -> tuple[Any, Any, Any]:
        store, versions = tasks.remote(HANDLES["kv"]), tasks.remote(HANDLES["versions"])
        one, many, old = await asyncio.gather(
            store.aget("key3"), store.aget_many(KEYS), versions.aget("key3", as_of=1150)
        )
        return one, many, old

    kv, versions = tasks.embedded("kv"), tasks.embedded("versions")
    assert asyncio.run(read()) == (kv.get("key3"), kv.get_many(KEYS), versions.get("key3", as_of=1150))


def test_async_reads_wait_for_a_task_that_starts(tasks: Tasks) -> None:
    store = tasks.remote(HANDLES["kv"], timeout=5)
    starts_at_the_second_look(tasks)

    assert asyncio.run(store.aget("key3")) == tasks.embedded("kv").get("key3")
    assert tasks.refreshed == 2


def test_async_reads_end_with_the_timeout(tasks: Tasks) -> None:
    store = tasks.remote(HANDLES["kv"], timeout=0.05)
    tasks.running = False

    with pytest.raises(NotAvailableError, match=r"within 0\.05 s: no task"):
        asyncio.run(store.aget("key3"))


# ---- tasks that can't answer


def starts_at_the_second_look(tasks: Tasks) -> None:
    def look() -> None:
        tasks.running = tasks.refreshed >= 2

    tasks.running, tasks.on_refresh = False, look


def test_a_read_waits_for_a_task_that_starts(tasks: Tasks) -> None:
    store = tasks.remote(HANDLES["kv"], timeout=5)
    starts_at_the_second_look(tasks)

    assert listed(store.all()) == listed(tasks.embedded("kv").all())


def test_a_read_ends_with_the_timeout_and_says_why(tasks: Tasks) -> None:
    store = tasks.remote(HANDLES["kv"], timeout=0.05)

    def restoring(partition: int, request: ReadRequest) -> None:
        raise NotAvailableError("it restores", True)

    tasks.before = restoring
    with pytest.raises(NotAvailableError, match=r"'kv' of the job 'job' could not be read within 0\.05 s: it restores") as raised:
        store.get("key3")
    assert raised.value.retry


def test_a_task_that_never_answers_ends_with_the_timeout(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tasks.remote(HANDLES["kv"], timeout=0.05)
    silent: list[Any] = [lambda request: Future()]
    monkeypatch.setattr(tasks, "owners", lambda partition: silent)

    with pytest.raises(NotAvailableError, match="no answer"):
        store.get("key3")
    with pytest.raises(NotAvailableError, match="no answer"):
        asyncio.run(store.aget("key3"))


def test_what_does_not_help_to_ask_again_is_raised_at_once(tasks: Tasks) -> None:
    store = tasks.remote(HANDLES["kv"], timeout=30)

    def gone() -> None:
        raise NotAvailableError("there is no job 'job'", False)

    tasks.running, tasks.on_refresh = False, gone
    with pytest.raises(NotAvailableError, match="no job") as raised:
        store.get("key3")
    assert not raised.value.retry


def test_what_a_directory_can_not_say_now_is_asked_again(tasks: Tasks) -> None:
    store = tasks.remote(HANDLES["kv"], timeout=5)

    def restarting() -> None:
        tasks.running = tasks.refreshed >= 2
        raise NotAvailableError("the manager restarts", True)

    tasks.running, tasks.on_refresh = False, restarting
    assert store.get("key3") == tasks.embedded("kv").get("key3")


def test_a_scan_that_can_not_begin_everywhere_leaves_nothing_open() -> None:
    tasks = Tasks(3)
    tasks.fill()
    store = tasks.remote(HANDLES["windows"], timeout=0.05)

    def last_is_away(partition: int, request: ReadRequest) -> None:
        if partition == 2:
            raise NotAvailableError("fenced", True)

    tasks.before = last_is_away
    with pytest.raises(NotAvailableError, match="fenced"):
        store.all()
    assert tasks.open_scans == 0
    tasks.close()


def test_standbys_answer_only_if_stale_reads_are_allowed(tasks: Tasks) -> None:
    strict, lenient = (tasks.remote(HANDLES["kv"], timeout=0.1, stale_ok=stale) for stale in (False, True))
    tasks.running, tasks.standby_reads = False, tasks.reads

    with pytest.raises(NotAvailableError):
        strict.get("key3")
    assert lenient.get("key3") == tasks.embedded("kv").get("key3")
    assert listed(lenient.all()) == listed(tasks.embedded("kv").all())


def test_a_global_store_is_read_of_any_task_that_answers() -> None:
    tasks = Tasks(3)
    tasks.fill()
    store = tasks.remote(GLOBAL, timeout=5)

    def only_the_last(partition: int, request: ReadRequest) -> None:
        if partition != 2:
            raise NotAvailableError("restoring", True)

    tasks.before = only_the_last
    assert store.get("name3") == tasks.embedded("everywhere").get("name3")
    tasks.close()


def test_a_client_gives_stores_and_closes_once(tasks: Tasks) -> None:
    closed: list[int] = []
    with Client(tasks, lambda: closed.append(1)) as client:
        assert client.job == "job"
        assert client.store(TABLE).get("order3") == Order("item43", 43)
    client.close()

    assert closed == [1]
