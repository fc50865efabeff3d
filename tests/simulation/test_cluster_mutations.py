"""The simulated cluster finds what it is there for: with one rule left out, one of a thousand worlds must fail."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from raystreams.cluster import outbox, task
from raystreams.cluster.custody import Custody
from raystreams.cluster.exchange import IncomingEdge, Message, Run, decode_entries
from raystreams.cluster.links import Links, Packet, Reply
from raystreams.cluster.replica import Replica
from raystreams.cluster.replication import Replicate, Replicated, Replication
from raystreams.cluster.simulation import check_cluster
from raystreams.cluster.standby import Standby
from raystreams.cluster.task import PartitionTask

from tests.simulation.worlds import random_splits, topics_of, topology_of

MOST = 1_000

Mutate = Callable[[pytest.MonkeyPatch], None]


def find(name: str, standbys: int, partitions: int) -> int:
    """Look for a world that fails; return how many did not."""
    topology = topology_of(name)
    for number in range(MOST):
        random = Random(number)
        splits = random_splits(random, topics_of(topology))
        check_cluster(
            topology, splits, partitions=partitions, standbys=standbys, seeds=[number], edge_records=random.choice((2, 64))
        )
    return MOST


def no_dedupe(patch: pytest.MonkeyPatch) -> None:
    class Trusting(IncomingEdge):
        def accept(self, run: Run) -> bool:
            self.channel.records.extend(decode_entries(run.data, run.first, self._key, self._value))
            self.expected = run.next
            return True

    patch.setattr(task, "IncomingEdge", Trusting)


def no_outbox(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outbox.Outbox, "keep", lambda *_: None)


def no_rows_of_self_edges(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outbox.Outbox, "keep_waiting", lambda *_: None)


def acknowledging_on_receipt(patch: pytest.MonkeyPatch) -> None:
    message_to = PartitionTask.message_to

    def hasty(self: PartitionTask, peer: int, **options: Any) -> Message:
        self._cursors = {edge: incoming.expected for edge, incoming in self.incoming.items()}
        return message_to(self, peer, **options)

    patch.setattr(PartitionTask, "message_to", hasty)


def one_cursor_a_sender(patch: pytest.MonkeyPatch) -> None:
    message_to = PartitionTask.message_to

    def coarse(self: PartitionTask, peer: int, **options: Any) -> Message:
        most = {sender: max(n for (_, s), n in self._cursors.items() if s == sender) for _, sender in self._cursors}
        self._cursors = {
            (name, sender): min(most[sender], self.incoming[name, sender].expected) for name, sender in self._cursors
        }
        return message_to(self, peer, **options)

    patch.setattr(PartitionTask, "message_to", coarse)


def telling_how_far_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    message_to = PartitionTask.message_to

    def hasty(self: PartitionTask, peer: int, **options: Any) -> Message:
        edges = {name: edge for (name, to), edge in self.outgoing.items() if to == peer}
        self._states[peer] = self.outbox.edge_states(self, edges)
        self._committed_events = -1  # so that it isn't made anew
        return message_to(self, peer, **options)

    patch.setattr(PartitionTask, "message_to", hasty)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    receive, handle, replicate = Links.receive, Standby.handle, Replica._on_replicate

    def takes_all(self: Links, packet: Packet) -> tuple[Reply, bool]:
        sender = packet.message.sender
        self._met[sender] = min(self._met.get(sender, 0), packet.sender_epoch)
        self._links[sender].epoch = min(self._links[sender].epoch, packet.sender_epoch)
        return receive(self, packet)

    def follows_all(self: Standby, asked: Replicate) -> Replicated:
        self._epoch = 0
        return handle(self, asked)

    def agrees(self: Replica, asked: Replicate, respond: Any) -> None:
        if self.member is None:
            replicate(self, asked, respond)
        else:
            respond(Replicated((asked.epoch, asked.commits[-1][0] if asked.commits else 0)))

    patch.setattr(Replica, "_on_replicate", agrees)
    patch.setattr(Links, "receive", takes_all)
    patch.setattr(Standby, "handle", follows_all)


def promoting_any_standby(patch: pytest.MonkeyPatch) -> None:
    def living(self: Custody, record: Any) -> Any:
        return [copy for name, copy in record.copies.items() if name != record.owner and self._actors.lives(name)]

    patch.setattr(Custody, "_in_sync", living)


def not_waiting_for_standbys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replication, "settled", True)


def letting_go_of_a_standby_alone(patch: pytest.MonkeyPatch) -> None:
    lose = Replication._lose

    def forgets(self: Replication, follower: Any) -> None:
        follower.in_sync = follower.caught_up = False
        lose(self, follower)

    patch.setattr(Replication, "_lose", forgets)


MUTATIONS: list[tuple[Mutate, str, int, int]] = [
    (no_dedupe, "lists_by_key", 0, 2),
    (no_outbox, "lists_by_key", 0, 2),
    (no_rows_of_self_edges, "lists_by_key", 0, 1),
    (acknowledging_on_receipt, "lists_by_key", 0, 2),
    (one_cursor_a_sender, "lookups_in_a_chain", 0, 2),
    (telling_how_far_before_the_commit, "rekeyed_joined_as_of", 0, 2),
    (no_fence, "lists_by_key", 2, 2),
    (promoting_any_standby, "lists_by_key", 1, 2),
    (not_waiting_for_standbys, "lists_by_key", 1, 2),
    (letting_go_of_a_standby_alone, "lists_by_key", 1, 2),
]


@pytest.mark.parametrize(("mutate", "name", "standbys", "partitions"), MUTATIONS, ids=[m[0].__name__ for m in MUTATIONS])
def test_leaving_out_a_rule_is_found(
    monkeypatch: pytest.MonkeyPatch, mutate: Mutate, name: str, standbys: int, partitions: int
) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError, match="seed="):
        find(name, standbys, partitions)
