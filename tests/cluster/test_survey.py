"""What nodes have of a job's state, looked at on disk, and where its partitions may begin because of that."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from raystreams.cluster import survey
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.rows import Rows
from raystreams.cluster.state_dir import copy_path, task_identity
from raystreams.cluster.survey import Found, Look, forget_markers, groups, look, markers, state_of
from raystreams.stores.database import TaskDatabase


@contextmanager
def opened(folder: Path, partition: int, *, copy: int = 0, job: str = "job", partitions: int = 2) -> Iterator[TaskDatabase]:
    path = copy_path(folder, partition, copy)
    path.parent.mkdir(parents=True, exist_ok=True)
    with TaskDatabase.open(path, task_identity(job, partition, partitions)) as database:
        yield database


def make(folder: Path, partition: int, lineage: tuple[int, int], *, copy: int = 0, job: str = "job", partitions: int = 2) -> str:
    """Write a copy of a partition; returns its path."""
    with opened(folder, partition, copy=copy, job=job, partitions=partitions) as database:
        Rows(database, "_task").put("lineage", value=lineage)
        database.commit()
    return str(copy_path(folder, partition, copy))


def damage(path: str) -> None:
    for file in Path(path).glob("MANIFEST-*"):
        file.write_bytes(b"no manifest")


# ---- look


def test_a_look_at_nothing_makes_the_folder_and_leaves_a_marker(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "state"

    assert look(str(folder), "job", 2, ".marker-1") == Look(found=[])
    assert [path.name for path in folder.iterdir()] == [".marker-1"]


def test_a_look_finds_all_copies_with_their_lineages(tmp_path: Path) -> None:
    made = [make(tmp_path, 1, (3, 4)), make(tmp_path, 0, (1, 2)), make(tmp_path, 1, (5, 6), copy=1)]
    with opened(tmp_path, 0, copy=2):
        pass  # a standby that has nothing yet

    assert look(str(tmp_path), "job", 2, ".m").found == [
        Found(0, made[1], (1, 2)),
        Found(1, made[0], (3, 4)),
        Found(1, made[2], (5, 6)),
        Found(0, str(copy_path(tmp_path, 0, 2)), (0, 0)),
    ]


def test_a_damaged_copy_counts_for_nothing_but_a_plain_one_is_there(tmp_path: Path) -> None:
    plain, other = make(tmp_path, 0, (3, 4)), make(tmp_path, 0, (3, 4), copy=1)
    damage(plain)
    damage(other)

    assert look(str(tmp_path), "job", 1, ".m").error is None
    assert look(str(tmp_path), "job", 1, ".m").found == [Found(0, plain, (0, 0))]


@pytest.mark.parametrize(
    ("job", "partitions", "text"), [("another", 2, "job 'another'"), ("job", 3, "partitions")], ids=["job", "partitions"]
)
def test_the_state_of_another_job_is_an_error(tmp_path: Path, job: str, partitions: int, text: str) -> None:
    make(tmp_path, 0, (1, 1), job=job, partitions=partitions)
    seen = look(str(tmp_path), "job", 2, ".m")

    assert seen.found == () and seen.error is not None and text in seen.error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    seen = look(str(tmp_path), "job", 2, ".m")

    assert seen.error is not None and f"the state directory {tmp_path} can't be written" in seen.error


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    seen = look(str(tmp_path / "state"), "job", 2, ".m")

    assert seen.found == () and seen.error is not None and str(tmp_path / "state") in seen.error


def test_a_copy_that_a_process_has_open_is_waited_for_and_then_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "LOCKED_SECONDS", 0.0)
    path = make(tmp_path, 0, (1, 2))
    with opened(tmp_path, 0) as database:
        in_use = look(str(tmp_path), "job", 2, ".m")
        monkeypatch.setattr(survey, "LOCKED_SECONDS", 60.0)
        timer = threading.Timer(0.02, database.close)
        timer.start()
        waited = look(str(tmp_path), "job", 2, ".m")
        timer.join()

    assert in_use.error is not None and str(path) in in_use.error
    assert waited == Look(found=[Found(0, path, (1, 2))])


# ---- markers


def test_markers_are_those_of_one_look(tmp_path: Path) -> None:
    for name in (".m-1-b", ".m-1-a", ".m-2-a"):
        (tmp_path / name).touch()
    seen = markers(str(tmp_path), ".m-1-")
    forget_markers(str(tmp_path), ".m-1-")

    assert seen == [".m-1-a", ".m-1-b"]
    assert [path.name for path in tmp_path.iterdir()] == [".m-2-a"]


def test_nodes_that_see_one_anothers_markers_have_one_disk() -> None:
    seen = {"c": ["mc", "ma"], "b": ["mb"], "a": ["ma", "mc"]}

    assert groups(seen, {"a": "ma", "b": "mb", "c": "mc"}) == [["a", "c"], ["b"]]
    assert groups({}, {}) == []


# ---- what follows


def test_a_job_without_state_may_begin_anywhere() -> None:
    assert state_of({"a": Look(), "b": Look()}, [["a"], ["b"]], 2, "state") == [None, None]


def test_the_copy_with_the_latest_lineage_counts_wherever_it_is() -> None:
    looks = {
        "a": Look(found=[Found(0, "s/00000", (2, 9)), Found(1, "s/00001", (2, 7))]),
        "b": Look(found=[Found(0, "s/replica-1/00000", (3, 1)), Found(1, "s/replica-1/00001", (2, 6))]),
    }

    assert state_of(looks, [["a"], ["b"]], 2, "s") == [("s/replica-1/00000", {"b"}), ("s/00001", {"a"})]


def test_of_equal_copies_the_plain_one_counts() -> None:
    other, plain = Found(0, "s/replica-1/00000", (2, 9)), Found(0, "s/00000", (2, 9))

    assert state_of({"a": Look(found=[other]), "b": Look(found=[plain])}, [["a"], ["b"]], 1, "s") == [("s/00000", {"b"})]
    assert state_of({"a": Look(found=[plain]), "b": Look(found=[other])}, [["a"], ["b"]], 1, "s") == [("s/00000", {"a"})]


def test_all_nodes_that_see_the_disk_have_the_state() -> None:
    found = Look(found=[Found(0, "s/00000", (1, 1))])

    assert state_of({"a": found, "b": Look(), "c": found}, [["a", "c"], ["b"]], 1, "s") == [("s/00000", {"a", "c"})]
    assert state_of({"a": found}, [], 1, "s") == [("s/00000", {"a"})]


def test_partitions_whose_state_nobody_has_are_named() -> None:
    looks = {"a": Look(found=[Found(1, "s/00001", (1, 1))]), "b": Look(found=[Found(3, "s/00003", (1, 1))])}

    with pytest.raises(ConfigError, match=r"the state of partitions 0, 2 is missing: no node .* has it in s\."):
        state_of(looks, [["a"], ["b"]], 4, "s")


def test_an_error_of_a_node_names_it() -> None:
    with pytest.raises(ConfigError, match=r"^node abcdefgh: no space left$"):
        state_of({"b": Look(), "abcdefghijkl": Look(error="no space left")}, [], 1, "s")
