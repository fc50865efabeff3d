"""One database a task: commits are whole, identities are checked, damage and locks are named."""

from __future__ import annotations

import os
import pickle
import random
import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from raystreams.stores.builders import Stores
from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import (
    ClosedStoreError,
    CorruptedStoreError,
    StateLockedError,
    StoreError,
    StoreMismatchError,
)
from raystreams.stores.leveldb import LevelDBEngine
from raystreams.stores.memory import MemoryEngine

from tests.stores.homes import IDENTITY, listed

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

WORDS = Stores.key_value("words", key=str, value=int)
OTHER = Stores.versioned("other", key=str, value=int, history_retention=1_000)


def test_a_commit_covers_all_stores_and_a_crash_loses_all_since(tmp_path: Path) -> None:
    for path, engine in ((tmp_path, None), (None, MemoryEngine())):
        with TaskDatabase.open(path, IDENTITY, engine=engine) as database:
            assert database.is_new
            words, other = WORDS.create(database), OTHER.create(database)
            words.put("a", 1)
            other.put("a", 1, 10)
            operations = database.commit()
            assert not database.is_new
            assert len(operations) == 3 + 2 + 2  # identity and catalog, entries and their number, a version and the clock
            assert database.commit() == []
            words.put("a", 2)
            other.put("a", 2, 20)
            assert database.uncommitted_bytes > 0
            database.discard()
            assert database.uncommitted_bytes == 0
            with pytest.raises(ClosedStoreError):
                words.get("a")
            words, other = WORDS.create(database), OTHER.create(database)

            assert (words.get("a"), words.approximate_num_entries(), other.get("a").value, other.observed) == (1, 1, 1, 10)


def test_a_crash_before_the_first_commit_leaves_a_new_database() -> None:
    with TaskDatabase.open(None, IDENTITY) as database:
        WORDS.create(database)
        database.discard()
        WORDS.create(database).put("a", 1)

        assert len(database.commit()) == 4
    with pytest.raises(ClosedStoreError):
        database.commit()


def test_a_hot_key_is_committed_once() -> None:
    with TaskDatabase.open(None, IDENTITY) as database:
        words = WORDS.create(database)
        words.put("a", -1)
        database.commit()
        for number in range(1_000):
            words.put("a", number)

        assert len(database.commit()) == 1


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        ({"job": "other", "partition": 0}, "job 'test', and is now opened with 'other'"),
        ({"job": "test", "partition": 1}, "partition 0, and is now opened with 1"),
        ({"job": "test"}, "partition 0, and is now opened with None"),
    ],
)
def test_the_state_of_another_task_is_refused_by_name(identity: dict[str, Any], text: str, tmp_path: Path) -> None:
    with TaskDatabase.open(tmp_path, IDENTITY) as database:
        database.commit()

    with pytest.raises(StoreMismatchError, match=text):
        TaskDatabase.open(tmp_path, identity)
    TaskDatabase.open(tmp_path, IDENTITY).close()  # the failed opening has let go of the lock


def test_another_layout_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TaskDatabase.open(tmp_path, IDENTITY) as database:
        database.commit()
    monkeypatch.setattr("raystreams.stores.database.LAYOUT", 99)

    with pytest.raises(StoreMismatchError, match="layout 1, and is now opened with 99"):
        TaskDatabase.open(tmp_path, IDENTITY)


@pytest.mark.parametrize(
    ("builder", "text"),
    [
        (Stores.timestamped_key_value("words", key=str, value=int), "kind 'key_value'"),
        (Stores.key_value("words", key=int, value=int), "key 'str'"),
        (Stores.key_value("words", key=str, value=str), "was int, is str"),
    ],
)
def test_another_store_under_the_name_is_refused_by_name(builder: Any, text: str) -> None:
    engine = MemoryEngine()
    with TaskDatabase.open(None, IDENTITY, engine=engine) as database:
        WORDS.create(database)
        database.commit()

    with TaskDatabase.open(None, IDENTITY, engine=engine) as database, pytest.raises(StoreMismatchError, match=text):
        builder.create(database)


def test_a_store_has_one_writer() -> None:
    with TaskDatabase.open(None, IDENTITY) as database:
        WORDS.create(database)

        with pytest.raises(StoreError, match="open already"):
            WORDS.create(database)
        assert database.keyspace("_cursors") is database.keyspace("_cursors")


def test_a_store_keeps_its_rows_under_a_new_name() -> None:
    engine = MemoryEngine()
    renamed = replace(WORDS, name="terms", formerly="words")
    with TaskDatabase.open(None, IDENTITY, engine=engine) as database:
        WORDS.create(database).put("a", 1)
        database.commit()
    for _ in range(2):
        with TaskDatabase.open(None, IDENTITY, engine=engine) as database:
            assert renamed.create(database).get("a") == 1
            database.commit()
            assert database.store_names() == ["terms"]
    with TaskDatabase.open(None, IDENTITY, engine=engine) as database:
        renamed.create(database)
        with pytest.raises(StoreError, match="which this topology still has"):
            replace(WORDS, name="third", formerly="terms").create(database)


def test_a_store_that_is_gone_is_dropped_with_its_rows() -> None:
    with TaskDatabase.open(None, IDENTITY) as database:
        words = WORDS.create(database)
        for key in "abc":
            words.put(key, 1)
        database.commit()
        with pytest.raises(StoreError, match="is open"):
            database.drop("words")
        database.discard()
        database.drop("words")
        database.drop("words")

        assert database.store_names() == []
        assert database.verify() == 1
        assert WORDS.create(database).get("a") is None


def test_a_standby_applies_commits_and_takes_over() -> None:
    standby = TaskDatabase.open(None, IDENTITY)
    with TaskDatabase.open(None, IDENTITY) as database:
        words, other = WORDS.create(database), OTHER.create(database)
        for number in range(5):
            words.put(f"k{number % 3}", number)
            other.put("k", number, number * 10)
            standby.apply(pickle.loads(pickle.dumps(database.commit())))
        expected = listed(words.all()), listed(other.history("k"))

    with standby:
        assert standby.store_names() == ["other", "words"]
        assert WORDS.read_committed(standby).get("k1") == 4
        promoted = WORDS.create(standby), OTHER.create(standby)
        assert (listed(promoted[0].all()), listed(promoted[1].history("k"))) == expected
        with pytest.raises(StoreError, match="a standby has none"):
            standby.apply([])


def test_a_query_sees_what_was_committed_when_it_began(tmp_path: Path) -> None:
    for path in (tmp_path, None):
        with TaskDatabase.open(path, IDENTITY) as database:
            words = WORDS.create(database)
            for key in ("a", "b", "c"):
                words.put(key, 1)
            database.commit()
            words.put("d", 1)
            query = WORDS.read_committed(database)
            words.delete("a")
            words.put("b", 2)
            database.commit()
            words.put("c", None)
            database.commit()

            assert listed(query.all()) == [("a", 1), ("b", 1), ("c", 1)]
            assert listed(query.reverse_range("a", "b")) == [("b", 1), ("a", 1)]
            assert (query.get("a"), query.get("d"), query.approximate_num_entries()) == (1, None, 3)
            assert listed(WORDS.read_committed(database).all()) == [("b", 2), ("d", 1)]
            for write, arguments in ((query.put, ("x", 1)), (query.delete, ("a",))):
                with pytest.raises(StoreError, match="read-only"):
                    write(*arguments)
            with pytest.raises(StoreError, match="there are: words"):
                database.read_committed("wrods")


# ---- files ----------------------------------------------------------------------------------------------------------


def test_a_second_opening_is_refused_also_from_another_process(tmp_path: Path) -> None:
    with TaskDatabase.open(tmp_path, IDENTITY):
        with pytest.raises(StateLockedError, match="in use by another process"):
            TaskDatabase.open(tmp_path, IDENTITY)
        assert in_a_process(lambda: opens_locked(tmp_path)) == 0
    TaskDatabase.open(tmp_path, IDENTITY).close()


def opens_locked(path: Path) -> None:
    with pytest.raises(StateLockedError):
        TaskDatabase.open(path, IDENTITY)


def in_a_process(work: Any) -> int:
    """Run something in a fork; 0 if it returned."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_errors_survive_pickling() -> None:
    for error in (
        CorruptedStoreError("/p", "bad block"), StoreMismatchError("here", "key", 1, 2), StateLockedError("/p"),
        ClosedStoreError("x"),
        StoreError("text"),
    ):  # fmt: skip
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.args, str(again)) == (type(error), error.args, str(error))


def filled(path: Path, *, compacted: bool) -> None:
    with TaskDatabase.open(path, IDENTITY) as database:
        words = WORDS.create(database)
        for number in range(2_000):
            words.put(f"key{number}", number)
            if number % 500 == 499:
                database.commit()
    if compacted:
        with TaskDatabase.open(path, IDENTITY) as database:  # opening writes the log to a table
            assert isinstance(database._engine, LevelDBEngine)
            database._engine._db.compact_range()


def flip(path: Path, position: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * position)] ^= 0x40
    path.write_bytes(data)


def read_everything(path: Path) -> None:
    with TaskDatabase.open(path, IDENTITY) as database:
        database.verify()


@pytest.mark.parametrize(("pattern", "compacted"), [("*.ldb", True), ("*.log", False)])
def test_a_flipped_bit_is_found_and_named(pattern: str, compacted: bool, tmp_path: Path) -> None:
    filled(tmp_path, compacted=compacted)
    largest = max(tmp_path.glob(pattern), key=lambda path: path.stat().st_size)
    flip(largest, 0.3)

    with pytest.raises(CorruptedStoreError, match=f"(?s){tmp_path}.*raystreams reset"):
        read_everything(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    filled(tmp_path, compacted=True)
    for table in tmp_path.glob("*.ldb"):
        table.unlink()

    with pytest.raises(CorruptedStoreError):
        TaskDatabase.open(tmp_path, IDENTITY)


@pytest.mark.parametrize("compacted", [True, False])
def test_a_lost_current_is_damage_and_no_new_database(compacted: bool, tmp_path: Path) -> None:
    filled(tmp_path, compacted=compacted)
    (tmp_path / "CURRENT").unlink()
    files = sorted(tmp_path.iterdir())

    with pytest.raises(CorruptedStoreError, match="CURRENT is gone"):
        TaskDatabase.open(tmp_path, IDENTITY)
    assert sorted(tmp_path.iterdir()) == files


def test_a_table_cut_short_is_damage(tmp_path: Path) -> None:
    filled(tmp_path, compacted=True)
    for table in tmp_path.glob("*.ldb"):
        table.write_bytes(table.read_bytes()[:-7])

    with pytest.raises(CorruptedStoreError, match="raystreams reset"):
        read_everything(tmp_path)


def test_a_commit_on_a_full_disk_stores_nothing_and_says_so(tmp_path: Path) -> None:
    assert in_a_process(lambda: fill_the_disk(tmp_path)) == 0

    with TaskDatabase.open(tmp_path, IDENTITY) as database:
        words = WORDS.create(database)
        assert listed(words.all()) == [("kept", 1)]
        words.put("more", 2)
        database.commit()
        assert words.approximate_num_entries() == 2


def fill_the_disk(path: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    database = TaskDatabase.open(path, IDENTITY)
    words = WORDS.create(database)
    words.put("kept", 1)
    database.commit(sync=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # as a disk with no more room
    for number in range(5_000):
        words.put(f"lost{number}", number)
    with pytest.raises(StoreError, match="File too large"):
        database.commit()
    assert words.get("lost7") == 7  # nothing is forgotten
    with pytest.raises(StoreError, match="takes no writes since one failed"):
        database.commit()


def test_a_killed_process_leaves_whole_commits(tmp_path: Path) -> None:  # B57
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        put_and_commit_for_ever(tmp_path, write)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        for _ in range(30):
            told.readline()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    with TaskDatabase.open(tmp_path, IDENTITY) as database:
        words, other = WORDS.create(database), OTHER.create(database)
        commits = words.get("commits") or 0
        model: dict[str, dict[int, int | None]] = {}
        for key, value, at in islice(some_puts(), commits * 10):
            model.setdefault(key, {})[at] = value
        assert commits >= 30
        for key, versions in model.items():
            times = sorted(versions)
            expected = [(at, versions[at]) for at in times if versions[at] is not None]
            rows = listed(other.history(key))
            assert [(row.timestamp, row.value) for row in rows] == expected
            assert all(row.valid_to in (*times, None) for row in rows)


def some_puts() -> Iterator[tuple[str, int | None, int]]:
    chance = random.Random(7)
    for number in count():
        yield chance.choice("ab"), chance.choice([None, number]), chance.randint(500, 1_000)


def put_and_commit_for_ever(path: Path, told: int) -> None:
    database = TaskDatabase.open(path, IDENTITY)
    words, other = WORDS.create(database), OTHER.create(database)
    for number, (key, value, at) in enumerate(some_puts(), 1):
        other.put(key, value, at)
        if number % 10 == 0:
            words.put("commits", number // 10)
            database.commit()
            os.write(told, b"\n")
