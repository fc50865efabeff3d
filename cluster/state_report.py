"""What becomes of a job's existing state: looked at before it is run, and changed by nothing here.

    kept       the same store; values may have gained fields with defaults, or lost fields
    renamed    the store says `formerly=` the old name
    new        there is no such state yet
    gone       no store of the topology has this name any more: running would lose its rows, and is refused
    refused    another kind, type or setting: its rows can't be read as what the topology says

State belongs to a store's or a channel's name. A state directory of another job or number of partitions is refused as a
whole, with its error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from raystreams.cluster.job_file import JobDescription
from raystreams.cluster.state_check import check_topology
from raystreams.cluster.state_dir import has_state, stopped
from raystreams.operators.graph import Topology
from raystreams.stores.database import CatalogEntry, TaskDatabase, compare_identities
from raystreams.stores.errors import StoreMismatchError

Verdict = Literal["kept", "renamed", "new", "gone", "refused"]


@dataclass(frozen=True, slots=True)
class StoreVerdict:
    """What becomes of one store, and why."""

    store: str
    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What becomes of all of a job's stores."""

    job: str
    where: str | None
    stores: Sequence[StoreVerdict]
    rows: int | None = None
    """How many rows were read and found whole, when that was asked for."""

    @property
    def is_refused(self) -> bool:
        """Whether the job can't run on this state."""
        return any(store.verdict in ("refused", "gone") for store in self.stores)

    def as_text(self) -> str:
        """Return the report for people."""
        where = "it has no state yet: everything is new" if self.where is None else f"state in {self.where}"
        width = max((len(store.store) for store in self.stores), default=0)
        lines = [f"{self.job}: {where}"]
        lines += [f"  {store.verdict:8} {store.store:{width}}  {store.detail}".rstrip() for store in self.stores]
        if self.rows is not None:
            lines.append(f"  {self.rows:,} rows read, all whole")
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain data."""
        stores = [{"store": store.store, "verdict": store.verdict, "detail": store.detail} for store in self.stores]
        return {"job": self.job, "state": self.where, "refused": self.is_refused, "stores": stores, "rows": self.rows}


def check_state(job: JobDescription, state_dir: Path | None, *, deep: bool = False) -> Report:
    """Compare a job with a state directory; raises what opening it would raise. `deep`: read every row."""
    if state_dir is None or not has_state(state_dir):
        return Report(job=job.name, where=None, stores=[StoreVerdict(name, "new") for name in job.topology.stores])
    with stopped(state_dir, job.name, job.partitions) as databases:
        rows = sum(database.verify() for database in databases) if deep else None
        verdicts = compare(job.topology, databases[0])
        if all(store.verdict not in ("refused", "gone") for store in verdicts):
            verdicts += _of_channels(job.topology, databases[0])
    return Report(job=job.name, where=str(state_dir), stores=verdicts, rows=rows)


def compare(topology: Topology, database: TaskDatabase) -> list[StoreVerdict]:
    """Say what becomes of each store of a topology, and of each that the database has besides."""
    there = {name: database.catalog[name] for name in database.store_names()}
    verdicts = []
    taken = set()
    for name, builder in topology.stores.items():
        before = name if name in there else builder.formerly
        if before is None or before not in there:
            verdicts.append(StoreVerdict(name, "new"))
            continue
        taken.add(before)
        verdicts.append(_verdict(name, before, there[before], builder.identity()))
    gone = "the topology has no store of this name; say formerly= where it has another, or begin again: `raystreams reset`"
    return verdicts + [StoreVerdict(name, "gone", gone) for name in there if name not in taken]


def _of_channels(topology: Topology, database: TaskDatabase) -> list[StoreVerdict]:
    try:
        check_topology(database, topology)
    except StoreMismatchError as error:
        return [StoreVerdict("channels", "refused", str(error))]
    return []


def _verdict(name: str, before: str, entry: CatalogEntry, wanted: dict[str, Any]) -> StoreVerdict:
    try:
        compare_identities(f"store {before!r}", entry.identity, wanted)
    except StoreMismatchError as error:
        return StoreVerdict(name, "refused", str(error))
    changed = "" if dict(entry.identity) == wanted else "its values have other fields now"
    if before != name:
        return StoreVerdict(name, "renamed", ", ".join(part for part in (f"formerly {before}", changed) if part))
    return StoreVerdict(name, "kept", changed)
