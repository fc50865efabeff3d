"""One task among others: its turn, its peers, its standbys. No thread, no Ray, no clock but the one that it is given.

    turn     take what sources have, process, commit when it is time, write to sinks
    due      what should be sent now: packets to peers, requests to standbys
    receive, answered, replicated ...   what comes back

A commit's effects (packets, sink records, acknowledgements) leave once the standbys that are in sync have it. Until then the
task takes no further turn; it goes on taking packets, which only wait in its channels.

The Ray actor drives it, and the simulator of crashes does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from raystreams.cluster.links import FencedError, Links, Packet, Reply
from raystreams.cluster.orders import Mode, Orders
from raystreams.cluster.outputs import WrittenBatch
from raystreams.cluster.replication import Replicate, Replicated, Replication
from raystreams.cluster.rows import lineage_of
from raystreams.cluster.state_check import note_finished
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_shell import COMMIT_RECORDS, COMMIT_SECONDS
from raystreams.stores.database import TaskDatabase

TURN_RECORDS = 1_024
"""Records that are processed before packets are looked at again."""

IDLE_SECONDS = 0.004
"""With nothing more to process, a commit waits for so long after the last one; longer where commits take long."""


class Shell(Protocol):
    """The sources and sinks around a task (`task_shell.TaskShell`)."""

    task: PartitionTask
    database: TaskDatabase

    def take(self) -> bool:
        """Feed channels that have room."""
        ...

    def punctuate(self) -> bool:
        """Fire what is due."""
        ...

    def open(self) -> None:
        """Open the sinks."""
        ...

    def pending(self) -> Sequence[WrittenBatch]:
        """What was committed and not written."""
        ...

    def write(self, batches: Sequence[WrittenBatch]) -> bool:
        """Give batches to the sinks; False if stopped before all were written."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether all inputs have ended, and the other tasks have committed what was sent."""
        ...

    @property
    def is_quiet(self) -> bool:
        """Whether every source has ended and nothing is on its way."""
        ...


class TaskMember:
    """A running task of a job in a cluster."""

    def __init__(
        self,
        shell: Shell,
        epoch: int,
        *,
        clock: Callable[[], float],
        sync: bool = True,
        turn_records: int = TURN_RECORDS,
    ) -> None:
        self.shell, self.task, self.epoch = shell, shell.task, epoch
        self.links = Links(self.task, epoch)
        self.replication = Replication(epoch, lineage_of(shell.database), shell.database.rows)
        self.mode: Mode = "run"
        self.is_over = False
        """Stopped or finished, as ordered: everything is committed and has left."""
        self.is_done = self.is_quiet = False
        self.activity = 0
        self.commits = self.processed = 0
        self._clock, self._sync, self._turn_records = clock, sync, turn_records
        self._loops_ended: int | None = None
        self._must_commit = self._may_commit = False
        """There are records to commit; there is something, such as what a sink has written."""
        self._since_commit = 0
        # The first commit is due at once: others may wait for what this task has lost.
        self._committed_at = clock() - COMMIT_SECONDS
        self._commit_took = 0.0
        self._batches: list[WrittenBatch] = []
        """Committed, not yet written."""
        self._is_open = False
        """The sinks are opened when something may leave: that cuts files to what is committed. A task that is of the past and
        does not know it never comes to that, nor to what an earlier incarnation had committed and not let out."""
        self.sinks_wait_until = 0.0
        """A sink wants to be asked again then, not before."""
        self._wrote = False
        """Sinks have written what they have not committed."""
        self._last_commit = False

    # ---- orders

    def follow(self, orders: Orders) -> None:
        """Do what the manager wants from now on."""
        if orders.epoch > self.epoch:
            raise FencedError
        self.links.know({number: peer.epoch for number, peer in orders.peers.items()})
        self.replication.follow(orders.standbys)
        self.mode = orders.mode
        self._last_commit = self._last_commit and self.mode in ("stop", "finish")
        if self._loops_ended is None:
            self._loops_ended = orders.loops_ended
        elif orders.loops_ended > self._loops_ended and self.shell.is_quiet:
            self._loops_ended = orders.loops_ended
            self._acts()
            self._must_commit = self.task.end_feedback() or self._must_commit

    # ---- the turn

    def turn(self) -> bool:
        """Do a round of work; returns whether there may be more to do at once."""
        if self.is_over:
            return False
        # A sink that takes nothing holds up all but a stop: that leaves to the next start what is committed.
        if not self._leave() and not (self.mode == "stop" and self.replication.settled):
            return False
        worked = False
        if self.mode == "run":
            took = self.shell.take()
            fired = self.shell.punctuate()
            done = self.task.process(self._turn_records)
            ended = self.task.took_ends()
            self._since_commit += done
            self.processed += done
            if done or fired or ended:
                self._must_commit = True
            worked = bool(done or fired or ended or took)
            if worked:
                self._acts()
        if self._commit_is_due(worked):
            self._commit()
            worked = True
        self._see_if_over()
        if not worked:
            self._look()
        return worked

    def _acts(self) -> None:
        # In this order: who sees the old activity must not see that all is quiet, too.
        self.is_quiet = self.is_done = False
        self.activity += 1

    def _look(self) -> None:
        nothing_left = not (self._must_commit or self._may_commit or self._batches) and self.replication.settled
        self.is_done = nothing_left and self.links.are_quiet and self.shell.is_finished
        self.is_quiet = nothing_left and self.shell.is_quiet

    def _commit_is_due(self, worked: bool) -> bool:
        if self.mode in ("stop", "finish"):
            return not self._last_commit
        if not (self._must_commit or self._may_commit):
            return False
        elapsed = self._clock() - self._committed_at
        if elapsed >= COMMIT_SECONDS or self._since_commit >= COMMIT_RECORDS:
            return True
        return self._must_commit and not worked and elapsed >= max(IDLE_SECONDS, 2 * self._commit_took)

    def _commit(self) -> None:
        self._last_commit = self.mode in ("stop", "finish")
        if self.mode == "finish":
            note_finished(self.shell.database)
        self._must_commit = self._may_commit = False
        began = self._clock()
        outgoing = self.task.commit(sync=self._sync, tell=False)
        self._committed_at = self._clock()
        self._commit_took = self._committed_at - began
        self._since_commit = 0
        self.commits += 1
        self._batches += outgoing.batches
        self._wrote = False
        self.replication.committed(self.task.lineage, outgoing.operations)
        self._leave()

    def _leave(self) -> bool:
        """Let the effects of the last commit out; False while standbys do not have it, or a sink does not take it."""
        if not self.replication.settled:
            return False
        if not self._is_open:
            self.shell.open()
            self._is_open = True
            self._batches = [*self.shell.pending(), *self._batches]
        if self._batches:
            if self._clock() < self.sinks_wait_until:
                return False
            batches, self._batches = self._batches, []
            self._wrote = self._may_commit = True
            if not self.shell.write(batches):
                self._batches = batches  # those that were written are known to be
                return False
        return True

    def _see_if_over(self) -> None:
        """After the last commit, once all of it has left. A job that stops leaves to the next start what a sink does not take."""
        if not self._last_commit or not self.replication.settled:
            return
        if not self._leave():
            self.is_over = self.mode == "stop" and bool(self._batches)
            return
        if self._wrote:
            self._commit()
        self.is_over = not self._wrote and self._leave()

    # ---- peers and standbys

    def due(self) -> list[Packet]:
        """The packets that should leave now."""
        return self.links.due() if self.replication.settled and not self.is_over else []

    def receive(self, packet: Packet) -> Reply:
        """Take a peer's packet. Raises FencedError if this task is of the past."""
        if packet.message.runs or packet.message.committed:
            self._acts()
        reply, new = self.links.receive(packet)
        if new:
            self._acts()
            self._may_commit = True
        return reply

    def answered(self, packet: Packet, reply: Reply) -> None:
        """A peer has replied. Raises FencedError if this task is of the past."""
        self.links.answered(packet, reply)

    def lost(self, packet: Packet) -> None:
        """A call to a peer has failed."""
        self.links.lost(packet)

    def replicas_due(self) -> list[tuple[str, Replicate]]:
        """What standbys should be asked now."""
        return self.replication.due()

    def replicated(self, name: str, asked: Replicate, answer: Replicated) -> None:
        """A standby has answered. Raises FencedError if this task is of the past."""
        if not self.replication.answered(name, asked, answer):
            raise FencedError

    def replica_lost(self, name: str, asked: Replicate) -> None:
        """A call to a standby has failed."""
        self.replication.lost(name, asked)

    def close(self) -> None:
        """Let go of what standbys needed."""
        self.replication.close()
