"""What a task knows of its peers: which incarnation of each it talks to, what has arrived there, what is due.

    Packet    a message under the epochs of its sender and of the receiver that it is meant for
    Reply     taken, with what the receiver expects next on each channel; or refused, since one of the two is of the past

At most one packet is on its way to each peer; its reply says where the next one begins. A lost call changes nothing: what it
carried is sent again, and numbers and cursors make that harmless (`exchange`). A packet is due when there is something that
the peer was not told: runs, commits, how far edges are in time; never for nothing.

Epochs are of a task, given by the job's manager, and only rise. What comes of an older epoch than is known is of a task that
another one has replaced: `FENCED`; whoever hears that ends itself. [An actor whose node was declared dead went on calling its
peers for minutes.] A packet that is meant for another incarnation of the receiver is `ELSEWHERE`: the sender waits until it
is told about the new one. The first packet of an epoch is where the two compare who has committed what (`connecting`).

Nothing here knows Ray, threads or time. Source: design, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from raystreams.cluster.exchange import Message
from raystreams.cluster.task import PartitionTask

PACKET_BYTES = 4 << 20
"""Runs are added to a packet until it has so many bytes."""


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """What travels from task to task."""

    message: Message
    sender_epoch: int
    receiver_epoch: int


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """What a packet's receiver says."""

    status: Literal["taken", "fenced", "elsewhere"]
    expected: Mapping[str, int] = {}
    """By channel of the sender: the number that comes next."""


_PACKETS, _REPLIES = msgspec.msgpack.Decoder(Packet), msgspec.msgpack.Decoder(Reply)
_encode = msgspec.msgpack.Encoder().encode


def encode(what: Packet | Reply) -> bytes:
    """Return the bytes that travel."""
    return _encode(what)


def decode_packet(data: bytes) -> Packet:
    """Return the packet of its bytes."""
    return _PACKETS.decode(data)


def decode_reply(data: bytes) -> Reply:
    """Return the reply of its bytes."""
    return _REPLIES.decode(data)


class FencedError(Exception):
    """Another incarnation of this task has taken its place. Not for users: the actor ends itself."""


class _Link:
    """The way to one peer."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.epoch = 0
        """The incarnation that is talked to; 0 while none is known."""
        self.sent: dict[str, int] = {}
        """By channel: the number of the first record that the peer lacks, as it said itself."""
        self.told: tuple[Any, Any] | None = None
        """What it knows of our commits and edges; None before the first packet arrived."""
        self.on_its_way: Message | None = None
        self.records = 0


class Links:
    """All peers of one task."""

    def __init__(self, task: PartitionTask, epoch: int) -> None:
        self._task, self.epoch = task, epoch
        self._links = {peer: _Link(peer) for peer in range(task.partitions) if peer != task.partition}
        self._met: dict[int, int] = {}
        """By peer: the epoch of which a packet was taken."""

    def know(self, epochs: Mapping[int, int]) -> None:
        """Take note of the incarnations that there are; older ones than known are not believed.

        One that answered "elsewhere" is tried again when it is named again: it may hear late that it is the task now.
        """
        for peer, epoch in epochs.items():
            link = self._links.get(peer)
            if link is not None and epoch > link.epoch:
                link.epoch, link.sent, link.told, link.on_its_way = epoch, {}, None, None

    def epoch_of(self, peer: int) -> int:
        """The incarnation of a peer that is talked to; 0 while none is known."""
        return self._links[peer].epoch

    def taken_by_peers(self) -> dict[int, int]:
        """By peer: the records that it has taken, repeats included."""
        return {link.peer: link.records for link in self._links.values() if link.records}

    # ---- sending

    def due(self) -> list[Packet]:
        """The packets that should leave now. Each is on its way until `answered` or `lost`."""
        packets = []
        for link in self._links.values():
            if link.epoch == 0 or link.on_its_way is not None:
                continue
            # Before the peer has said what it has of us, nothing new may get a number there: it could be one that it knows.
            most_runs = 64 if link.peer in self._met else 0
            message = self._task.message_to(link.peer, limit=most_runs, after=link.sent, most_bytes=PACKET_BYTES)
            if not message.runs and (message.committed, message.edges) == link.told:
                continue
            link.on_its_way = message
            packets.append(Packet(message, self.epoch, link.epoch))
        return packets

    def answered(self, packet: Packet, reply: Reply) -> None:
        """A packet's reply has come. Raises FencedError if this task is of the past."""
        link = self._links[packet.message.receiver]
        if link.epoch != packet.receiver_epoch:
            return  # the peer is another one by now
        link.on_its_way = None
        if reply.status == "fenced":
            raise FencedError
        if reply.status == "elsewhere":
            link.epoch = 0  # until it is told who is there
            return
        link.records += sum(run.count for run in packet.message.runs)
        link.sent = dict(reply.expected)
        link.told = (packet.message.committed, packet.message.edges)

    def lost(self, packet: Packet) -> None:
        """Nobody knows if a packet arrived: what it carried will be due again."""
        link = self._links[packet.message.receiver]
        if link.epoch == packet.receiver_epoch:
            link.on_its_way = None

    @property
    def are_quiet(self) -> bool:
        """Whether nothing is on its way."""
        return all(link.on_its_way is None for link in self._links.values())

    # ---- receiving

    def receive(self, packet: Packet) -> tuple[Reply, bool]:
        """Take a packet; returns the reply, and whether anything in it was new.

        Raises FencedError if the sender knows a later incarnation of this task, LostCommitsError if one of the two has
        lost commits.
        """
        if packet.receiver_epoch > self.epoch:
            raise FencedError
        message = packet.message
        sender = message.sender
        if packet.sender_epoch < max(self._met.get(sender, 0), self._links[sender].epoch):
            return Reply("fenced"), False
        if packet.receiver_epoch < self.epoch:
            return Reply("elsewhere"), False
        connecting = packet.sender_epoch > self._met.get(sender, 0)
        new = self._task.receive(message, connecting=connecting)
        self._met[sender] = packet.sender_epoch
        expected = {name: edge.expected for (name, peer), edge in self._task.incoming.items() if peer == sender}
        return Reply("taken", expected), new or connecting
