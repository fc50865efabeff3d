"""Channels and edges as a task's last commit left them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raystreams.cluster.channels import END, START, Channel
from raystreams.cluster.exchange import OutgoingEdge
from raystreams.cluster.outbox import Outbox
from raystreams.cluster.rows import Rows
from raystreams.cluster.wiring import Split
from raystreams.operators.record import Process
from raystreams.stores.serdes import Serde


def split_channel(rows: Rows, split: Split, source: str, process: Process) -> Channel:
    """The channel of a split, from its committed position on."""
    channel = Channel(split.id, source, process, topic=split.topic, disorder=split.disorder)
    saved = rows.get("split", split.id, default=[None, START, False, 0])
    channel.position, channel.taken, channel.finished, channel.offered = saved
    # Not what had been read further: the orders of what is read again must be the same.
    channel.top = channel.taken if channel.taken == START else channel.taken + split.disorder
    channel.bound = END if channel.finished else channel.taken
    channel.ended = channel.finished
    return channel


def outgoing_edges(
    rows: Rows, outbox: Outbox, name: str, key: Serde[Any], value: Serde[Any], peers: Iterable[int]
) -> dict[tuple[str, int], OutgoingEdge]:
    """A channel's edges to peers, with the runs that they have not committed."""
    return {
        (name, peer): OutgoingEdge(
            name, peer, key, value, next=rows.get("number", name, peer, default=1), runs=outbox.runs(name, peer)
        )
        for peer in peers
    }
