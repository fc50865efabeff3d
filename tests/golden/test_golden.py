"""All golden cases: exact lists, in memory, on disk, with crashes, and on several partitions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden import stores, topologies

HERE = Path(__file__).parent
STORES = sorted(path.name.split(".")[0] for path in HERE.glob("store_*.gz"))
TOPOLOGIES = sorted(path.name.split(".")[0] for path in HERE.glob("*.gz") if not path.name.startswith("store_"))
PARTITIONED = ["fk_join", "self_join", "stream_fk_join", "stream_table", "table_chain", "table_table"]


def cases(family: str) -> list[dict[str, Any]]:
    with gzip.open(HERE / f"{family}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def test_every_family_is_there() -> None:
    assert len(STORES) == 4
    assert len(TOPOLOGIES) == 15
    assert sum(len(cases(family)) for family in STORES + TOPOLOGIES) == 1500


@pytest.mark.parametrize("family", STORES)
def test_stores_give_the_golden_results(family: str) -> None:
    for case in cases(family):
        assert stores.run(case) == case["expected"], case["id"]


@pytest.mark.parametrize("family", STORES)
def test_stores_on_disk_give_the_golden_results(family: str, tmp_path: Path) -> None:
    for case in cases(family):
        assert stores.run(case, tmp_path / case["id"]) == case["expected"], case["id"]


@pytest.mark.parametrize("family", TOPOLOGIES)
def test_topologies_give_the_golden_lists(family: str) -> None:
    for case in cases(family):
        assert topologies.run(case) == case["expected"], case["id"]


@pytest.mark.parametrize("family", TOPOLOGIES)
def test_topologies_on_disk_give_the_golden_lists_whatever_crashes(family: str, tmp_path: Path) -> None:
    for case in cases(family):
        if case["expected"][-1:] and case["expected"][-1][0] == "error":
            continue  # nothing comes after the error, so there is nothing to commit
        rows = topologies.run(case, state_dir=tmp_path / case["id"], crash=True)

        assert list(topologies.without_steps(rows)) == list(topologies.without_steps(case["expected"])), case["id"]


@pytest.mark.parametrize("family", PARTITIONED)
def test_each_key_has_the_golden_list_on_three_partitions(family: str) -> None:
    for case in filter(topologies.independent_of_partitions, cases(family)):
        rows = topologies.run(case, partitions=3)

        assert topologies.by_key(rows) == topologies.by_key(case["expected"]), case["id"]
