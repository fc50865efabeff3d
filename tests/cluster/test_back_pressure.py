"""What stops the sources of a cluster's task when others can't go on: full edges, over any number of tasks between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raystreams import Repartitioned, StreamsBuilder, Topology
from tests.cluster.members import Members


def hops(partitions: int) -> Topology:
    """Records go from task 0 to task 1, to task 2 ... and there into the sink."""
    builder = StreamsBuilder()
    stream = builder.stream("in")
    for to in range(1, partitions):
        stream = stream.repartition(Repartitioned(partitioner=always(to)), name=f"to-{to}")
    stream.to("out")
    return builder.build()


def always(partition: int) -> Callable[[Any, Any, int], int]:
    return lambda key, value, partitions: partition


def flooded(partitions: int) -> Members:
    made = Members(hops(partitions), partitions, ends=False, edge_records=10)
    made.shells[0].at_once = 4
    made.rounds(3)
    made.shells[0].give(*(("k", n) for n in range(200)))
    made.shells[0].ends = True
    return made


@pytest.mark.parametrize("partitions", [2, 3])
def test_a_receiver_that_never_answers_stops_the_sources_and_when_it_is_back_all_go_on(partitions: int) -> None:
    made = flooded(partitions)
    made.dead.add(partitions - 1)
    made.rounds(100)
    taken = made.shells[0].taken
    made.rounds(20)
    later = made.shells[0].taken
    made.revive()
    made.rounds(300)

    assert taken == later and taken <= 2 * 10 * (partitions - 1) + 4
    assert made.shells[-1].written == [("k", n) for n in range(200)]


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_a_sink_that_takes_nothing_stops_the_sources_and_when_it_takes_again_all_go_on(partitions: int) -> None:
    made = flooded(partitions)
    made.shells[-1].sink_takes = False
    made.rounds(100)
    taken = made.shells[0].taken
    made.rounds(20)
    later = made.shells[0].taken
    made.shells[-1].sink_takes = True
    made.rounds(300)

    assert taken == later and taken <= 2 * 10 * partitions + 4
    assert made.shells[-1].written == [("k", n) for n in range(200)]
