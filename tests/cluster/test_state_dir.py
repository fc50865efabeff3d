"""Where a job's state lies: of several copies of a partition the latest one counts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from raystreams.cluster.rows import Rows, lineage_of
from raystreams.cluster.state_dir import copies_in, copy_path, forget, has_state, open_partition
from raystreams.stores.database import TaskDatabase


def commit(database: TaskDatabase, epoch: int, number: int) -> None:
    Rows(database, "_task").put("lineage", value=[epoch, number])
    database.commit()


def two_copies(folder: Path, plain: tuple[int, int], other: tuple[int, int]) -> None:
    with open_partition(folder, "shop", 0, 1) as database:
        commit(database, *other)
    path = copy_path(folder, 0, 1)
    path.parent.mkdir()
    shutil.copytree(copy_path(folder, 0, 0), path)
    shutil.rmtree(copy_path(folder, 0, 0))
    with TaskDatabase.open(copy_path(folder, 0, 0), {"job": "shop", "partition": 0, "partitions": 1}) as database:
        commit(database, *plain)


@pytest.mark.parametrize(
    ("plain", "other"), [((1, 9), (2, 4)), ((2, 4), (1, 9)), ((2, 4), (2, 5)), ((2, 5), (2, 4))]
)
def test_the_copy_with_the_latest_lineage_is_opened(tmp_path: Path, plain: tuple[int, int], other: tuple[int, int]) -> None:
    two_copies(tmp_path, plain, other)

    with open_partition(tmp_path, "shop", 0, 1) as database:
        assert lineage_of(database) == max(plain, other)


def test_a_damaged_copy_does_not_count_where_there_is_a_whole_one(tmp_path: Path) -> None:
    two_copies(tmp_path, (1, 1), (2, 1))
    (copy_path(tmp_path, 0, 1) / "CURRENT").write_bytes(b"nonsense")

    with open_partition(tmp_path, "shop", 0, 1) as database:
        assert lineage_of(database) == (1, 1)


def test_all_copies_of_a_job_are_forgotten(tmp_path: Path) -> None:
    two_copies(tmp_path, (1, 1), (2, 1))
    (tmp_path / "00000.owner").write_text("{}")
    (tmp_path / "mine.txt").touch()

    assert forget(tmp_path, "shop", 1) == 1
    assert copies_in(tmp_path) == [] and not has_state(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "replica-1"]


def test_a_state_directory_in_which_only_other_copies_are_has_state(tmp_path: Path) -> None:
    two_copies(tmp_path, (1, 1), (2, 1))
    shutil.rmtree(copy_path(tmp_path, 0, 0))

    assert has_state(tmp_path)
    with open_partition(tmp_path, "shop", 0, 1) as database:
        assert lineage_of(database) == (2, 1)
    assert not copy_path(tmp_path, 0, 0).exists()
