"""The rows of edges: runs that peers have not committed, and waiting records of self-edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgpack
from raystreams.cluster.channels import END
from raystreams.cluster.exchange import EdgeState, LostCommitsError, OutgoingEdge, Run
from raystreams.cluster.rows import Rows
from raystreams.stores.database import TaskDatabase

if TYPE_CHECKING:
    from raystreams.cluster.task import PartitionTask


class Outbox:
    """What has left its operator and is not yet where it goes."""

    def __init__(self, database: TaskDatabase) -> None:
        self._sent = Rows(database, "_outbox")
        self._waiting = Rows(database, "_self")
        self._runs: dict[tuple[str, int], list[Run]] = {}
        self._rows: dict[str, list[tuple[int, bytes]]] = {}
        for (channel, peer, first), data in self._sent.scan():
            self._runs.setdefault((channel, peer), []).append(Run(channel, first, *msgpack.unpackb(data)))
        for (channel, first), data in self._waiting.scan():
            self._rows.setdefault(channel, []).append((first, data))

    def runs(self, channel: str, peer: int) -> list[Run]:
        """The runs of an edge that were committed and not acknowledged when this was opened, oldest first."""
        return self._runs.pop((channel, peer), [])

    def keep(self, peer: int, runs: list[Run]) -> None:
        """Write new runs."""
        for run in runs:
            self._sent.put_data(run.channel, peer, run.first, data=msgpack.packb([run.count, run.order, run.data]))

    def forget(self, peer: int, runs: list[Run]) -> None:
        """Delete runs that the peer has committed."""
        for run in runs:
            self._sent.delete(run.channel, peer, run.first)

    def waiting(self, channel: str) -> list[tuple[int, bytes]]:
        """The rows of a self-edge when this was opened: (first number, encoded records)."""
        return self._rows.pop(channel, [])

    def keep_waiting(self, channel: str, done: list[tuple[int, int]], row: tuple[int, bytes] | None) -> None:
        """Write a self-edge's new row, and delete those that are done."""
        for first, _ in done:
            self._waiting.delete(channel, first)
        if row is not None:
            self._waiting.put_data(channel, row[0], data=row[1])

    def check(self, task: int, edge: OutgoingEdge, number: int, *, connecting: bool) -> None:
        """Compare what a peer has committed with what was sent; raises LostCommitsError if one has fallen back.

        A message that comes late may say less than is known. One that is exchanged on connecting may not.
        """
        if number > edge.left:
            raise LostCommitsError(task, edge.peer, edge.channel, f"it has sent up to {edge.left - 1}, its peer has {number - 1}")
        if connecting and number < edge.acknowledged:
            raise LostCommitsError(
                edge.peer, task, edge.channel, f"it had committed up to {edge.acknowledged - 1}, and now has {number - 1}"
            )

    def edge_states(self, task: PartitionTask, edges: Mapping[str, OutgoingEdge]) -> dict[str, EdgeState]:
        """How far each edge is, as of the last commit."""
        states = {}
        for name, edge in edges.items():
            ended = name in task.ended_channels
            bound = END if ended else task.host.bound_of(name)
            states[name] = EdgeState(number=edge.next, bound=bound, idle=task.host.is_idle(name), ended=ended)
        return states
