"""A copy of a task's database, request by request: what it takes, what it refuses, and what a crash leaves of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from raystreams.cluster import replication
from raystreams.cluster.replication import Replicate, Replicated
from raystreams.cluster.standby import FolderPlace, MemoryPlace, Standby
from raystreams.stores.database import TaskDatabase

from tests.cluster.copies import IDENTITY, Copies, followed, in_the_middle_of_a_copy, place_of, rows_of

PLACES = pytest.mark.parametrize("kind", ["memory", "folder"])


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is a part of its own."""
    monkeypatch.setattr(replication, "PART_BYTES", 1)


@PLACES
def test_half_a_copy_is_not_taken_for_a_whole_one(kind: str, tmp_path: Path, small_parts: None) -> None:
    copies = in_the_middle_of_a_copy(place_of(kind, tmp_path))
    standby = copies.reopen()
    found = (standby.lineage, rows_of(standby.database))
    asked = copies.settle()

    assert found == ((0, 0), [])
    assert asked.count("meet") == 0 and len(asked) > len(rows_of(copies.database))
    assert rows_of(copies.standbys["s"].database) == rows_of(copies.database)


@PLACES
@pytest.mark.parametrize("end", ["crash", "loss"])
def test_nothing_of_half_a_copy_gets_into_the_next_one(kind: str, end: str, tmp_path: Path, small_parts: None) -> None:
    copies = in_the_middle_of_a_copy(place_of(kind, tmp_path))
    for _ in range(4):
        copies.answer(copies.due())
    if end == "crash":
        copies.reopen()
    else:
        copies.replication.lost("s", copies.due())
    copies.commit(dict.fromkeys("abc"))
    copies.settle()

    assert rows_of(copies.standbys["s"].database) == rows_of(copies.database)


@PLACES
def test_a_standby_has_its_old_rows_until_a_copy_is_whole(kind: str, tmp_path: Path, small_parts: None) -> None:
    copies = Copies()
    copies.add(place=place_of(kind, tmp_path))
    copies.commit({"a": "1"})
    copies.settle()
    before = rows_of(copies.database)
    copies.start()
    copies.commit({"a": None, "b": "2"})
    copies.answer(copies.due())
    copies.answer(copies.due())
    standby = copies.reopen()

    assert (standby.lineage, rows_of(standby.database)) == ((1, 1), before)


def test_a_crash_between_the_steps_that_put_a_copy_in_place_leaves_none(tmp_path: Path, small_parts: None) -> None:
    copies = in_the_middle_of_a_copy(FolderPlace(tmp_path / "00000", IDENTITY))
    copies.standbys.pop("s").close()
    for path in (tmp_path / "00000").iterdir():
        path.unlink()
    (tmp_path / "00000").rmdir()
    standby = copies.reopen()

    assert standby.lineage == (0, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000", "00000.copying"]
    copies.settle()
    assert rows_of(standby.database) == rows_of(copies.database)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000"]


def test_a_copy_replaces_all_that_was_there() -> None:
    copies = Copies()
    other = Copies()
    other.commit({"old": "1"})
    other.commit({"old": "2"})
    copies.places["s"] = mine = MemoryPlace(IDENTITY)
    mine.engine = other.engine
    copies.commit({"a": "1"})
    copies.add(place=mine)
    copies.settle()

    assert rows_of(copies.standbys["s"].database) == rows_of(copies.database)


def test_what_an_older_incarnation_asks_is_fenced() -> None:
    copies = followed()
    copies.commit({"b": "2"})
    late = copies.due()
    standby = copies.standbys["s"]
    standby.know(2)
    by_orders = standby.handle(late)
    again = copies.reopen()
    again.handle(Replicate(epoch=3, what="meet"))
    by_a_task = again.handle(Replicate(epoch=2, what="meet"))

    assert (by_orders, by_a_task) == (Replicated(fenced=True), Replicated(fenced=True))
    assert again.lineage == (1, 1)
    assert not copies.replication.answered("s", late, by_orders)


@pytest.mark.parametrize("parts", [0, 5])
def test_a_part_of_a_copy_that_was_given_up_does_not_get_into_the_next_one(parts: int, small_parts: None) -> None:
    """The first part would begin the copy anew, another one would bring back what was deleted meanwhile."""
    copies = Copies()
    copies.commit({"a": "1", "b": "2", "c": "3"})
    copies.add()
    copies.answer(copies.due())
    for _ in range(parts):
        copies.answer(copies.due())
    late = copies.due()
    copies.replication.lost("s", late)
    copies.commit(dict.fromkeys("abc"))
    for _ in range(3):
        copies.answer(copies.due())
    answer = copies.standbys["s"].handle(late)
    copies.settle()

    assert (late.first, answer) == (not parts, Replicated((0, 0)))
    assert rows_of(copies.standbys["s"].database) == rows_of(copies.database)


def test_commits_that_do_not_come_next_are_left_out() -> None:
    standby = Standby(MemoryPlace(IDENTITY))
    answers = [
        standby.handle(Replicate(epoch=1, what="follow", commits=commits))
        for commits in ([(2, [(b"b", b"2")])], [(1, [(b"a", b"1")])], [(1, [(b"a", b"9")]), (2, [(b"b", b"2")])])
    ]

    assert answers == [Replicated((0, 0)), Replicated((1, 1)), Replicated((1, 2))]
    assert rows_of(standby.database) == [(b"a", b"1"), (b"b", b"2")]


def test_who_reads_a_standby_is_told_before_its_files_are_closed_and_when_new_ones_are_open() -> None:
    seen: list[str] = []
    databases: list[TaskDatabase] = []

    def opened(database: TaskDatabase) -> None:
        databases.append(database)
        seen.append("open")

    def closing() -> None:
        rows_of(databases[-1])  # it can still be read
        seen.append("close")

    standby = Standby(MemoryPlace(IDENTITY), on_open=opened, on_close=closing)
    standby.handle(Replicate(epoch=1, what="copy", first=True, rows=[(b"a", b"1")]))
    standby.handle(Replicate(epoch=1, what="copy", last=True))
    standby.close()

    assert seen == ["open", "close", "open", "close"]
    assert databases[-1] is standby.database and databases[0] is not databases[1]
