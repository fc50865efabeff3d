"""The simulation finds what it is there for: with one rule of the protocol left out, some seed must fail."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from raystreams.cluster import outbox, task
from raystreams.cluster.channels import Channel, Inputs
from raystreams.cluster.exchange import EdgeState, IncomingEdge, Message, Run, decode_entries
from raystreams.cluster.host import TaskHost
from raystreams.cluster.simulation import check_splits
from raystreams.cluster.task import PartitionTask

from tests.simulation.worlds import random_splits, topics_of, topology_of


def find(name: str, *, task: type[PartitionTask] = PartitionTask, partitions: int = 2) -> None:
    """Look for a world that fails."""
    topology = topology_of(name)
    for world in range(12):
        splits = random_splits(Random(world), topics_of(topology))
        check_splits(topology, splits, partitions=partitions, seeds=range(12), task=task)


def test_without_a_mutation_nothing_is_found() -> None:
    find("lists_by_key")


def test_a_receiver_that_takes_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    class Trusting(IncomingEdge):
        def accept(self, run: Run) -> bool:
            self.channel.records.extend(decode_entries(run.data, run.first, self._key, self._value))
            self.expected = run.next
            return True

    monkeypatch.setattr(task, "IncomingEdge", Trusting)
    with pytest.raises(AssertionError, match="seed="):
        find("lists_by_key")


def test_a_self_edge_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox.Outbox, "keep_waiting", lambda *_: None)
    with pytest.raises(AssertionError, match="seed="):
        find("lists_by_key", partitions=1)


def test_messages_without_an_outbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox.Outbox, "keep", lambda *_: None)
    with pytest.raises(AssertionError, match="seed="):
        find("lists_by_key")


def test_acknowledging_what_is_not_committed() -> None:
    class Hasty(PartitionTask):
        def message_to(self, peer: int, **options: Any) -> Message:
            self._cursors = {edge: incoming.expected for edge, incoming in self.incoming.items()}
            return super().message_to(peer, **options)

    with pytest.raises(AssertionError, match="seed="):
        find("lists_by_key", task=Hasty)


def test_telling_how_far_an_edge_is_before_the_commit() -> None:
    class Hasty(PartitionTask):
        def message_to(self, peer: int, **options: Any) -> Message:
            edges = {name: edge for (name, to), edge in self.outgoing.items() if to == peer}
            self._states[peer] = self.outbox.edge_states(self, edges)
            self._committed_events = -1  # so that it isn't made anew
            return super().message_to(peer, **options)

    with pytest.raises(AssertionError, match="seed="):
        find("rekeyed_joined_as_of", task=Hasty)


def test_going_on_without_a_channel_that_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Channel, "is_idle", lambda self: not self.feedback)
    with pytest.raises(AssertionError, match="seed="):
        find("rekeyed_joined_as_of")


def test_a_bound_that_ignores_open_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskHost, "_held_back", lambda self, edge: [])
    with pytest.raises(AssertionError, match="seed="):
        find("lookups_in_a_chain")


def test_a_bound_that_counts_before_its_records_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Early(IncomingEdge):
        def advance(self, state: EdgeState) -> None:
            super().advance(EdgeState(min(state.number, self.expected), state.bound, state.idle, state.ended))

    monkeypatch.setattr(task, "IncomingEdge", Early)
    with pytest.raises(AssertionError, match="seed="):
        find("rekeyed_joined_as_of")


def test_a_full_task_that_takes_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    run: Callable[..., int] = Inputs.run

    def stubborn(self: Inputs, *args: Any, only_feedback: bool = False) -> int:
        return 0 if only_feedback else run(self, *args)

    monkeypatch.setattr(Inputs, "run", stubborn)
    topology = topology_of("lookups_in_a_chain")
    with pytest.raises(AssertionError, match="stuck"):
        check_splits(topology, random_splits(Random(0), topics_of(topology)), partitions=1, seeds=range(4), edge_records=1)
