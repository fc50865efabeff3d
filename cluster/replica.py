"""What runs in an actor: a copy of a partition, which is the task, or a standby of it, as the manager's orders say.

    mail    orders, packets of peers, requests of the task that a standby follows, answers to what was sent
    loop    handle the mail, take a turn, send what is due; sleep when there is nothing to do

One thread does all of that; what comes from outside is put into its mailbox. How things are sent is given (`Wires`), so this
knows no Ray. An error ends the task, not the process: it is reported, and what was committed stays.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from logging import getLogger
from pathlib import Path
from typing import Any, Protocol

import msgspec
from raystreams.cluster.collected import collected_topics, kept_in_state
from raystreams.cluster.errors import ConfigError, NotAvailableError
from raystreams.cluster.garbage import rarely_collected
from raystreams.cluster.job import Job
from raystreams.cluster.links import FencedError, Packet, Reply, decode_packet
from raystreams.cluster.member import TaskMember
from raystreams.cluster.orders import Orders, PlannedSplit, Report
from raystreams.cluster.replication import Replicate, Replicated
from raystreams.cluster.reports import noted, report_of
from raystreams.cluster.standby import Standby
from raystreams.cluster.state_check import check_topology, was_finished
from raystreams.cluster.state_dir import task_identity
from raystreams.cluster.surroundings import PROCESS, Surroundings
from raystreams.cluster.task_reads import ReadRequest, ReadResponse, TaskReads
from raystreams.cluster.task_shell import RunSettings, TaskShell, splits_of_job
from raystreams.cluster.user_code import message_of
from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import CorruptedStoreError

_log = getLogger(__name__)

REPLICA_SECONDS = 3.0
"""A standby that does not answer for so long is lost."""

RETRY_SECONDS = 0.1
REPORT_SECONDS = 0.25

Respond = Callable[[Any], None]


class Wires(Protocol):
    """Sends for a replica. Answers come back by `Replica.post`."""

    def packet(self, peer: str, packet: Packet) -> None:
        """Send to the actor of that name; then post ("replied", packet, Reply or None)."""
        ...

    def request(self, standby: str, asked: Replicate) -> None:
        """Ask the actor of that name; then post ("replicated", standby, asked, Replicated or None)."""
        ...


class Replica:
    """One copy of one partition."""

    def __init__(
        self,
        open_job: Callable[[], Job],
        name: str,
        partition: int,
        path: Path,
        wires: Wires,
        surroundings: Surroundings = PROCESS,
    ) -> None:
        self.name, self.partition, self.path, self._wires = name, partition, path, wires
        self._around, self._clock = surroundings, surroundings.clock
        self._open_job = open_job
        self._mail: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._orders: Orders | None = None
        self._job: Job | None = None
        self._member: TaskMember | None = None
        self._shell: TaskShell | None = None
        self._standby: Standby | None = None
        self._database: TaskDatabase | None = None
        self._reads: TaskReads | None = None
        self._peers: dict[int, str] = {}
        self._early: list[tuple[bytes, Respond]] = []
        self._later: list[tuple[float, tuple[Any, ...]]] = []
        self._asked: dict[str, tuple[float, Replicate]] = {}
        self._reported_at = 0.0
        self._report = Report(state="starting")
        self._found_splits: list[PlannedSplit] | None = None
        self._already_finished = False
        self.is_ended = False
        self._ending = threading.Event()

    # ---- from any thread

    def post(self, *mail: Any) -> None:
        """Put something into the mailbox."""
        self._mail.put(mail)
        self._wake.set()

    def report(self) -> Report:
        """How it is now."""
        return report_of(self._report, self._member)

    def read(self, request: ReadRequest) -> ReadResponse:
        """Answer a read of committed state; NotAvailableError while there is none."""
        reads = self._reads
        if reads is None:
            raise NotAvailableError(f"partition {self.partition} is being opened or moved", True)
        return reads.read(request)

    @property
    def member(self) -> TaskMember | None:
        """The task, if this is it now."""
        return self._member

    @property
    def open_database(self) -> TaskDatabase | None:
        """What it has open."""
        return self._database if self._standby is None else self._standby.database

    def end(self) -> None:
        """Leave the loop, without a commit."""
        self._ending.set()
        self._wake.set()

    # ---- the loop

    def run(self) -> None:
        """Work until `end`, or until another has taken this one's place."""
        with rarely_collected():
            while not self.is_ended:
                self._wake.clear()
                if not self.step():
                    self._wake.wait(0.05)

    def step(self) -> bool:
        """One round of the loop; returns whether there may be more to do at once."""
        try:
            if not self._ending.is_set():
                return self._round()
        except FencedError:
            _log.info("partition %d: another one has taken the place of %s", self.partition, self.name)
        except Exception as error:
            self._fail(error)
            return False
        self.is_ended = True
        self._close()
        return False

    def _round(self) -> bool:
        """Everything once; returns whether there may be more to do at once."""
        busy = self._handle_mail()
        member = self._member
        if member is not None:
            was_over = member.is_over
            busy = member.turn() or busy
            for packet in member.due():
                self._wires.packet(self._peers[packet.message.receiver], packet)
            for name, asked in member.replicas_due():
                self._asked[name] = (self._clock(), asked)
                self._wires.request(name, asked)
            self._see_lost_replicas(member)
            if member.is_over and not was_over:
                self._leave(member)
        if self._clock() - self._reported_at >= REPORT_SECONDS:
            self._note_progress()
        return busy

    def _handle_mail(self) -> bool:
        now = self._clock()
        due = [mail for at, mail in self._later if at <= now]
        self._later = [(at, mail) for at, mail in self._later if at > now]
        while True:
            try:
                due.append(self._mail.get_nowait())
            except queue.Empty:
                break
        for kind, *rest in due:
            getattr(self, f"_on_{kind}")(*rest)
        return bool(due)

    # ---- orders

    def _on_orders(self, orders: Orders) -> None:
        if self._orders is not None and orders.incarnation < self._orders.incarnation:
            return
        self._orders = orders
        if self._report.state == "failed":
            return
        if orders.owner != self.name:
            self._follow_as_standby(orders)
            return
        if orders.splits is None:
            self._find_splits()
            return
        if self._member is None and self._report.state not in ("stopped", "finished"):
            self._become_task(orders)
        if self._member is not None:
            self._peers = {number: peer.name for number, peer in orders.peers.items()}
            self._member.follow(orders)

    def _loaded(self) -> Job:
        if self._job is None:
            self._job = self._open_job()
        return self._job

    def _find_splits(self) -> None:
        if self._found_splits is None:
            job = self._loaded()
            found = splits_of_job(job.topology, job.bindings, job.partitions)
            self._found_splits = [PlannedSplit.of(split) for split in found]
            self._report = Report(state="starting", found_splits=self._found_splits)

    def _follow_as_standby(self, orders: Orders) -> None:
        if self._member is not None:
            raise FencedError
        if self._standby is None:
            place = self._around.place(self.path, self._identity())
            self._standby = Standby(place, on_close=self._close_reads, on_open=self._open_reads)
            self._report = Report(state="standby", lineage=self._standby.lineage or (0, 0))
        self._standby.know(orders.epoch)

    def _identity(self) -> Any:
        job = self._loaded()
        return task_identity(job.name, self.partition, job.partitions)

    def _become_task(self, orders: Orders) -> None:
        job = self._loaded()
        assert orders.splits is not None
        splits = [planned.split() for planned in orders.splits]
        self._check_visible(job, splits)
        if self._standby is not None:
            self._standby.close()
            self._standby = None
        self._database = self._around.open_task(self.path, self._around.place(self.path, self._identity()))
        check_topology(self._database, job.topology)
        self._already_finished = was_finished(self._database)
        settings = RunSettings(
            name=job.name, partitions=job.partitions, state_dir=job.state_dir, on_error=job.on_error,
            exactly_once=job.guarantee == "exactly_once", epoch=orders.epoch, keep_outputs=collected_topics(job.bindings),
        )  # fmt: skip
        self._shell = self._around.shell(
            job.topology, kept_in_state(job.bindings), settings, self.partition, self._database, splits,
            wake=self._wake.set, stopping=self._sink_waits,
        )  # fmt: skip
        self._member = TaskMember(
            self._shell, orders.epoch, clock=self._clock, turn_records=self._around.turn_records
        )
        self._shell.read()
        self._open_reads(self._database)
        _log.info("partition %d: the task of epoch %d works at %s", self.partition, orders.epoch, self.path)
        self._note_progress()
        early, self._early = self._early, []
        for data, respond in early:
            self._on_packet(data, respond)

    def _sink_waits(self, seconds: float) -> bool:
        """A sink wants to be asked again later: the loop goes on meanwhile."""
        assert self._member is not None
        self._member.sinks_wait_until = self._clock() + seconds
        return True

    def _check_visible(self, job: Job, splits: list[Any]) -> None:
        """A source that other nodes see must be seen here, or its splits would be taken for ended."""
        seen = {split.id for split in splits_of_job(job.topology, job.bindings, job.partitions)}
        missing = [split.id for split in splits if split.owner == self.partition and split.id not in seen]
        if missing:
            raise ConfigError(
                f"partition {self.partition} does not see {', '.join(missing[:5])}, which another node of the cluster does. "
                "Sources must be at paths that every node sees: shared storage, or a copy on each"
            )

    # ---- packets

    def _on_packet(self, data: bytes, respond: Respond) -> None:
        if self._member is None:
            if self._report.state == "starting":
                self._early.append((data, respond))
            else:
                respond(Reply("elsewhere"))
            return
        respond(self._member.receive(decode_packet(data)))

    def _on_replied(self, packet: Packet, reply: Reply | None) -> None:
        if self._member is None:
            return
        if reply is None:
            self._later.append((self._clock() + RETRY_SECONDS, ("failed", packet)))
        else:
            self._member.answered(packet, reply)

    def _on_failed(self, packet: Packet) -> None:
        if self._member is not None:
            self._member.lost(packet)

    # ---- standbys

    def _on_replicate(self, asked: Replicate, respond: Respond) -> None:
        if self._member is not None or self._standby is None:
            respond(Replicated(fenced=self._member is not None and asked.epoch < self._member.epoch))
            return
        respond(self._standby.handle(asked))
        self._report = Report(state="standby", lineage=self._standby.lineage or (0, 0))

    def _on_replicated(self, name: str, asked: Replicate, answer: Replicated | None) -> None:
        if self._asked.get(name, (0.0, None))[1] is asked:
            del self._asked[name]
        if self._member is None:
            return
        if answer is None:
            self._member.replica_lost(name, asked)
        else:
            self._member.replicated(name, asked, answer)

    def _see_lost_replicas(self, member: TaskMember) -> None:
        late = self._clock() - REPLICA_SECONDS
        for name, (at, asked) in [*self._asked.items()]:
            if at < late:
                del self._asked[name]
                member.replica_lost(name, asked)

    # ---- reads

    def _open_reads(self, database: TaskDatabase) -> None:
        job = self._loaded()
        self._reads = TaskReads(job.topology, lambda: database, partitions=job.partitions)

    def _close_reads(self) -> None:
        reads, self._reads = self._reads, None
        if reads is not None:
            reads.close()

    # ---- ends

    def _note_progress(self) -> None:
        self._reported_at = self._clock()
        if self._member is not None and self._shell is not None:
            self._report = noted(self._member, self._shell, already_finished=self._already_finished)
        if self._reads is not None:
            self._reads.expire()

    def _leave(self, member: TaskMember) -> None:
        """Everything is committed, as ordered: give the files back, and say so."""
        assert self._shell is not None
        ended = report_of(noted(member, self._shell, already_finished=self._already_finished), member)
        self._close()
        self._report = _with_state(ended, "finished" if member.mode == "finish" else "stopped")

    def _fail(self, error: Exception) -> None:
        lost = isinstance(error, CorruptedStoreError)
        last = self.report()
        try:
            self._close()
        except Exception as another:  # of a sink: the first one counts
            error.add_note(str(another)) if hasattr(error, "add_note") else None
        self._report = _with_state(last, "failed", error=message_of(error), lost_state=lost)
        _log.error("partition %d has failed", self.partition, exc_info=error)

    def _close(self) -> None:
        """Close everything, without a commit."""
        self._close_reads()
        member, self._member = self._member, None
        shell, self._shell = self._shell, None
        database, self._database = self._database, None
        for _, respond in self._early:
            respond(Reply("elsewhere"))
        self._early.clear()
        try:
            if member is not None:
                member.close()
            if shell is not None:
                shell.close()
            if self._standby is not None:
                self._standby.close()
                self._standby = None
        finally:
            if database is not None:
                database.close()


def _with_state(report: Report, state: Any, **changes: Any) -> Report:
    return msgspec.structs.replace(report, state=state, **changes)
