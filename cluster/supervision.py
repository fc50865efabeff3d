"""What a job's manager decides, as a function of what it hears: no Ray, no thread, no clock but the one that it is given.

    heard    reports of actors, deaths, nodes that are there, what users want
    tick     compares that with what should be, and changes the record: who has what (`custody`), what state the job is in
    out      `Fleet`: save the record, launch an actor, end one. Orders of each actor are a function of the record
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from logging import getLogger

from raystreams.cluster.custody import Custody, Fleet, TooManyDeathsError
from raystreams.cluster.job_record import JobRecord, JobState, Outcome
from raystreams.cluster.known_actors import KnownActors
from raystreams.cluster.orders import Mode, Orders, Peer, Report
from raystreams.cluster.placement import Node
from raystreams.cluster.progress import total

_log = getLogger(__name__)

_STATE_OF: Mapping[Mode, JobState] = {"run": "running", "pause": "paused", "stop": "stopping"}


class Supervisor:
    """Keeps a job's tasks as they should be."""

    def __init__(self, record: JobRecord, fleet: Fleet, now: float) -> None:
        self.record, self._fleet = record, fleet
        self.actors = KnownActors()
        self.custody = Custody(record, self.actors, fleet)
        self._quiet: tuple[tuple[int, int], ...] | None = None
        self._heard_before: dict[str, int] = {}
        """How many reports each owner had given when loops were looked at last."""
        self._started_at = now
        self.is_over = False
        for partition, task in record.tasks.items():
            for copy in task.copies.values():
                self.actors.add(copy.name, partition, copy.node, now)

    # ---- what it hears

    def launch_all(self) -> None:
        """Start the actors of the record, for the first time."""
        for partition, task in self.record.tasks.items():
            for copy in task.copies.values():
                self._fleet.launch(partition, copy)

    def see_nodes(self, nodes: Sequence[Node]) -> None:
        """The nodes that there are now, with what is free on each."""
        self.custody.nodes = {node.id: node for node in nodes}

    def want(self, mode: Mode) -> None:
        """Users want the job to run, to pause or to stop."""
        record = self.record
        if record.mode in (mode, "finish") or record.state == "stopping":
            return
        record.mode, record.state = mode, _STATE_OF[mode]
        self._fleet.save(record)

    # ---- what it knows

    @property
    def missing(self) -> list[int]:
        """Partitions that wait for a node that has their state."""
        return self.custody.missing

    def report_of(self, partition: int) -> Report | None:
        """The last report of a partition's owner, dead or alive."""
        actor = self.actors.get(self.record.tasks[partition].owner)
        return None if actor is None else actor.report

    def orders_of(self, name: str) -> Orders | None:
        """What an actor should be; None if it isn't one of the job's any more."""
        actor, record = self.actors.get(name), self.record
        if actor is None or name not in record.tasks[actor.partition].copies:
            return None
        task = record.tasks[actor.partition]
        return Orders(
            incarnation=record.incarnation,
            epoch=task.epoch,
            owner=task.owner,
            mode=record.mode,
            splits=record.splits,
            peers={
                number: Peer(other.owner, other.epoch) for number, other in record.tasks.items() if number != actor.partition
            },
            standbys={copy.name: (copy.in_sync, copy.round) for copy in task.copies.values() if copy.name != task.owner},
            loops_ended=record.loops_ended,
        )

    # ---- decisions

    def tick(self, now: float) -> None:
        """Look at everything once."""
        if self.is_over:
            return
        self._see_splits()
        try:
            self.custody.look(now, may_grow=self.record.mode in ("run", "pause"))
        except TooManyDeathsError as error:
            self.fail(str(error))
        self._see_failures()
        self._see_running()
        self._see_loops()
        self._see_end(now)

    def _see_splits(self) -> None:
        """The first that finds the splits decides for all: they are written down before anything is read."""
        if self.record.splits is not None:
            return
        for task in self.record.tasks.values():
            report = self.actors.report(task.owner)
            if report is not None and report.found_splits is not None:
                self.record.splits = report.found_splits
                self._fleet.save(self.record)
                return

    def _see_failures(self) -> None:
        if self.record.error is not None:
            return
        for partition in self.record.tasks:
            report = self.report_of(partition)  # also of one that has died since
            if report is not None and report.state == "failed":
                self.fail(report.error or f"partition {partition} failed")
                return

    def fail(self, error: str) -> None:
        """The job can't go on: all tasks commit and stop, and then it is failed. The first error is the one that is told."""
        record = self.record
        if record.error is not None:
            return
        record.error = error
        record.state, record.mode = "stopping", "stop"
        _log.error("the job has failed: %s", record.error)
        self._fleet.save(record)

    def _see_running(self) -> None:
        if self.record.state == "starting" and all(
            report is not None and report.state in ("running", "paused", "finished") for report in self._reports().values()
        ):
            self.record.state = _STATE_OF.get(self.record.mode, "running")
            self._fleet.save(self.record)

    def _see_loops(self) -> None:
        """Twice in a row all is quiet and nobody has done anything in between: then nothing is on its way, and loops may end.

        Two reports of each since the last look: the second one was asked for after that look.
        """
        owners = [task.owner for task in self.record.tasks.values()]
        if self.record.mode != "run" or not self.actors.heard_since(owners, self._heard_before):
            return
        self._heard_before = self.actors.counts(owners)
        reports = [report for report in self._reports().values() if report is not None]
        quiet = len(reports) == len(owners) and all(report.is_quiet or report.is_done for report in reports)
        if not quiet or all(report.is_done for report in reports):
            self._quiet = None
            return
        seen = tuple((report.epoch, report.activity) for report in reports)
        if seen == self._quiet:
            self.record.loops_ended += 1
            self._fleet.save(self.record)
        self._quiet = seen

    def _see_end(self, now: float) -> None:
        record = self.record
        reports = self._reports()
        if record.mode == "run" and record.state == "running" and all(r is not None and r.is_done for r in reports.values()):
            record.mode = "finish"
            self._fleet.save(record)
        if record.mode not in ("stop", "finish") or any(self._works(partition) for partition in record.tasks):
            return
        if record.mode == "finish":
            record.state = "finished"
        else:
            record.state = "stopped" if record.error is None else "failed"
        record.last_reports = {n: report for n in record.tasks if (report := self.report_of(n)) is not None}
        record.outcome = outcome_of([*record.last_reports.values()], seconds=now - self._started_at)
        record.ended_at = now
        self._fleet.save(record)
        self.is_over = True
        for name in self.actors.all_names():
            self._fleet.end(name)

    def _works(self, partition: int) -> bool:
        """Whether a partition has not done yet what it was ordered to, and can."""
        report = self.report_of(partition)
        if report is not None and report.state in ("stopped", "finished", "failed"):
            return False
        if self.record.mode == "finish":
            return True
        return partition not in self.missing and self.actors.lives(self.record.tasks[partition].owner)

    def _reports(self) -> dict[int, Report | None]:
        return {partition: self.actors.report(task.owner) for partition, task in self.record.tasks.items()}


def outcome_of(reports: Sequence[Report], *, seconds: float) -> Outcome:
    """Return what all tasks have done, from what each has."""
    return Outcome(
        sources=total(report.taken for report in reports),
        sinks=total(report.sinks for report in reports),
        dropped=_counted([row for report in reports for row in report.dropped]),
        dead_letters=_counted([row for report in reports for row in report.dead_letters]),
        seconds=seconds,
        already_finished=bool(reports) and all(report.already_finished for report in reports),
    )


def _counted(rows: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    total: dict[tuple[str, str], int] = {}
    for name, reason, count in rows:
        total[name, reason] = total.get((name, reason), 0) + count
    return [(name, reason, count) for (name, reason), count in total.items()]
