"""Whole jobs in a harmful world: wherever tasks crash, and however late, often or out of turn their messages come, the
outcome is that of the undisturbed run. A failure prints its seed."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from raystreams.cluster.simulation import check_splits

from raystreams import Record, StreamsBuilder, Topic, check_crashes
from tests.simulation.worlds import WORLDS, pair, random_splits, topics_of, topology_of


@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("name", WORLDS)
def test_the_outcome_is_that_of_the_undisturbed_run(name: str, partitions: int) -> None:
    topology = topology_of(name)
    random = Random(f"{name} {partitions}")

    for _ in range(2):
        splits = random_splits(random, topics_of(topology))
        check_splits(topology, splits, partitions=partitions, seeds=range(3), edge_records=random.choice((1, 2, 64)))


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_the_outcome_is_that_of_the_undisturbed_run_in_many_worlds(name: str) -> None:
    topology = topology_of(name)

    for world in range(20):
        random = Random(f"{name} {world}")
        splits = random_splits(random, topics_of(topology), longest=20)
        check_splits(
            topology, splits, partitions=1 + world % 5, seeds=range(12), edge_records=random.choice((1, 2, 64))
        )


def small_job() -> tuple[Any, Topic[str, Any], Topic[str, Any]]:
    orders, rows = Topic("orders", key=str, value=dict[str, int]), Topic("rows", key=str, value=dict[str, int])
    builder = StreamsBuilder()
    builder.stream(orders).join(builder.table(rows), lambda a, c: {**a, **c}).to("out")
    return builder.build(), orders, rows


def test_users_check_their_own_topology() -> None:
    topology, orders, rows = small_job()
    inputs: list[tuple[str | Topic[Any, Any], Record[Any, Any]]] = [
        (rows, Record("a", {"row": 1}, 1)),
        (orders, Record("a", {"order": 1}, 2)),
        ("orders", Record("b", {"order": 2}, 3)),
    ]

    check_crashes(topology, inputs, partitions=3, seeds=20)


def test_a_failure_names_its_seed() -> None:
    calls: list[int] = []

    def forgets(value: Any) -> Any:
        calls.append(1)  # a function with a memory of its own, which no commit knows
        return {"k": "a", "n": len(calls)}

    builder = StreamsBuilder()
    builder.stream("s").map_values(forgets).to("out")
    inputs = [("s", Record("a", {"k": "a", "n": 0}, time)) for time in range(8)]

    with pytest.raises(AssertionError, match=r"seed=\d+, partitions=2: topic 'out', partition \d differs"):
        check_crashes(builder.build(), inputs, seeds=20)


def test_wrong_arguments_are_refused() -> None:
    topology, orders, _ = small_job()

    with pytest.raises(TypeError, match=r"StreamsBuilder\.build"):
        check_crashes(pair, [], partitions=1)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(ValueError, match="at least 1"):
        check_crashes(topology, [], partitions=0)
    with pytest.raises(ValueError, match="reads no topic 'nowhere'"):
        check_crashes(topology, [("nowhere", Record("a", {}, 1))])
    with pytest.raises(TypeError, match="str is declared"):
        check_crashes(topology, [(orders, Record(7, {}, 1))])
