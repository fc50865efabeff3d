"""What a job's manager knows of its actors: when each was heard, what it said, and why it is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from raystreams.cluster.orders import Report
from raystreams.cluster.placement import Node

SILENT_SECONDS = 10.0
"""An actor that says nothing for so long, on a node that is there, is stuck: it is replaced."""

LAUNCH_SECONDS = 60.0
"""So long an actor may take to say something for the first time."""


@dataclass(slots=True)
class Actor:
    """One of them. Times are of the manager's clock, in seconds."""

    name: str
    partition: int
    node: str
    launched_at: float
    heard_at: float | None = None
    report: Report | None = None
    gone: str | None = None
    """Why it is dead."""
    reports: int = 0
    never_started: bool = False


class KnownActors:
    """All actors that the record names."""

    def __init__(self) -> None:
        self._actors: dict[str, Actor] = {}

    def add(self, name: str, partition: int, node: str, now: float) -> None:
        """An actor is launched, or was by an earlier manager."""
        self._actors[name] = Actor(name, partition, node, now)

    def forget(self, name: str) -> None:
        """The record names it no more."""
        self._actors.pop(name, None)

    def get(self, name: str) -> Actor | None:
        """Return what is known of an actor."""
        return self._actors.get(name)

    def lives(self, name: str) -> bool:
        """Whether an actor is not known to be dead."""
        actor = self._actors.get(name)
        return actor is not None and actor.gone is None

    def report(self, name: str) -> Report | None:
        """The last report of a living actor."""
        actor = self._actors.get(name)
        return None if actor is None or actor.gone is not None else actor.report

    def names(self) -> list[str]:
        """The actors that are not known to be dead."""
        return [name for name, actor in self._actors.items() if actor.gone is None]

    def all_names(self) -> list[str]:
        """All of them."""
        return [*self._actors]

    # ---- what is heard

    def reported(self, name: str, report: Report, now: float) -> None:
        """An actor has answered."""
        actor = self._actors.get(name)
        if actor is not None and actor.gone is None:
            actor.heard_at, actor.report = now, report
            actor.reports += 1

    def died(self, name: str, why: str) -> None:
        """An actor is known to be dead."""
        actor = self._actors.get(name)
        if actor is not None and actor.gone is None:
            actor.gone = why

    def see_silence(self, nodes: Mapping[str, Node], now: float) -> list[str]:
        """Take those for dead whose node is gone, or that say nothing; return those that may still have a process."""
        stuck = []
        for name in self.names():
            actor = self._actors[name]
            if actor.node not in nodes:
                actor.gone = f"its node {actor.node[:8]} is gone"
            elif actor.heard_at is not None and now - actor.heard_at > SILENT_SECONDS:
                actor.gone = f"it has not answered for {SILENT_SECONDS:g} s"
                stuck.append(name)
            elif actor.heard_at is None and now - actor.launched_at > LAUNCH_SECONDS:
                actor.gone, actor.never_started = f"it has not started within {LAUNCH_SECONDS:g} s", True
                stuck.append(name)
        return stuck

    def silent_nodes(self, now: float, seconds: float) -> set[str]:
        """The nodes of actors that have said nothing for so long."""
        return {
            actor.node
            for actor in self._actors.values()
            if actor.gone is None and now - (actor.heard_at or actor.launched_at) > seconds
        }

    def heard_since(self, names: Iterable[str], counts: Mapping[str, int]) -> bool:
        """Whether each of these has reported at least twice since it had so many reports."""
        return all((actor := self._actors.get(name)) is not None and actor.reports >= counts.get(name, 0) + 2 for name in names)

    def counts(self, names: Iterable[str]) -> dict[str, int]:
        """How many reports each has given."""
        return {name: actor.reports for name in names if (actor := self._actors.get(name)) is not None}
