"""Whole jobs in a simulated cluster: nodes, standbys, moves of ownership, a supervisor that dies. The outcome is that of the
undisturbed run, and no rule is broken at any step. A failure prints its seed, which runs exactly so again."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from raystreams.cluster.simulated_cluster import SimulatedCluster
from raystreams.cluster.simulation import check_cluster

from tests.simulation.worlds import WORLDS, random_splits, topics_of, topology_of

WORLDS_OF_EACH = 23
"""A topology in the default run: 506 worlds in all."""

CHUNK, SEEDS_A_WORLD = 20, 5


def check(name: str, world: int, seeds: int, folder: Path | None = None) -> None:
    """Some seeds of one world: its inputs, partitions, standbys and limits are of its name and number."""
    topology, random = topology_of(name), Random(f"{name} {world}")
    splits = random_splits(random, topics_of(topology))
    check_cluster(
        topology, splits, partitions=random.randint(1, 5), standbys=random.choice((0, 1, 1, 2)), seeds=range(seeds),
        edge_records=random.choice((1, 2, 64)), folder=folder,
    )  # fmt: skip


@pytest.mark.parametrize("name", WORLDS)
def test_the_outcome_in_a_cluster_is_that_of_the_undisturbed_run(name: str) -> None:
    for world in range(WORLDS_OF_EACH):
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
    """Twenty worlds, one of them on LevelDB."""
    names = [*WORLDS]
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        name, world = names[number % len(names)], 1000 + number // len(names)
        if number % CHUNK:
            check(name, world, SEEDS_A_WORLD)
        else:
            with TemporaryDirectory() as folder:
                check(name, world, SEEDS_A_WORLD, Path(folder))


@pytest.mark.slow
def test_so_it_is_under_twenty_thousand_seeds() -> None:
    chunks = 20_000 // CHUNK // SEEDS_A_WORLD
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        done = list(pool.map(check_chunk, range(chunks)))

    assert len(done) * CHUNK * SEEDS_A_WORLD == 20_000
