"""Whole jobs in a simulated cluster: nodes, standbys, moves of ownership, a supervisor that dies. The outcome is that of the
undisturbed run, and no rule is broken at any step. A failure prints its seed, which runs exactly so again."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest
from raystreams.cluster.simulated_cluster import SimulatedCluster
from raystreams.cluster.simulation import check_cluster

from tests.simulation.worlds import WORLDS, random_splits, topics_of, topology_of

SEEDS = 23
"""A topology in the default run: 506 worlds in all."""

CHUNK = 40


def check(name: str, world: int, seeds: int, folder: Path | None = None) -> None:
    """Some seeds of one world: its inputs, partitions, standbys and limits are of its number."""
    topology, random = topology_of(name), Random(f"{name} {world}")
    splits = random_splits(random, topics_of(topology))
    check_cluster(
        topology, splits, partitions=random.randint(1, 5), standbys=random.choice((0, 1, 1, 2)), seeds=range(seeds),
        edge_records=random.choice((1, 2, 64)), folder=folder,
    )  # fmt: skip


@pytest.mark.parametrize("name", WORLDS)
def test_the_outcome_in_a_cluster_is_that_of_the_undisturbed_run(name: str) -> None:
    for world in range(SEEDS):
        check(name, world, 1)


@pytest.mark.parametrize("name", ["lists_by_key", "foreign_key_join", "windows_on_close"])
def test_so_it_is_on_disks(name: str, tmp_path: Path) -> None:
    check(name, 1, 2, tmp_path)


def test_a_seed_runs_exactly_so_again() -> None:
    topology = topology_of("foreign_key_join")
    splits = random_splits(Random(5), topics_of(topology))
    histories = []
    for _ in range(2):
        with SimulatedCluster(topology, splits, 3, Random(11), standbys=1) as run:
            run.run()
            histories.append(run.history)

    assert histories[0] == histories[1]
    assert len(histories[0]) > 5


def check_chunk(chunk: int) -> None:
    """Forty worlds: one in twenty on LevelDB."""
    names = [*WORLDS]
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        name, world = names[number % len(names)], 1000 + number // len(names)
        if number % 20:
            check(name, world, 1)
        else:
            import tempfile

            with tempfile.TemporaryDirectory() as folder:
                check(name, world, 1, Path(folder))


@pytest.mark.slow
def test_so_it_is_in_twenty_thousand_worlds() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert len(list(pool.map(check_chunk, range(20_000 // CHUNK)))) == 500
