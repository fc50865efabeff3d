"""Punctuation: functions called as stream time or wall-clock time passes (spec-runtime 5.3).

An entry that is due at T fires when now >= T, with now; then T moves on along its grid, past all missed intervals. Stream
time schedules are aligned at 0, wall-clock ones at the moment they were made. Each entry fires at most once a check.
Due times belong to the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raystreams.operators.execution import Host, NodeRuntime


class Cancellable:
    """A schedule that can be ended."""

    def __init__(self, entry: _Entry) -> None:
        self._entry = entry

    def cancel(self) -> None:
        """Never call again; works inside the callback too."""
        self._entry.cancelled = True


class _Entry:
    def __init__(self, node: NodeRuntime, interval: int, callback: Callable[[int], None], due: Any) -> None:
        self.node, self.interval, self.callback, self.due = node, interval, callback, due
        self.cancelled = False


class Punctuations:
    """All schedules of a task."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._entries: dict[str, list[_Entry]] = {"stream": [], "wall": []}
        self._made: dict[str, int] = {}

    def schedule(self, node: NodeRuntime, interval: int, clock: str, callback: Callable[[int], None]) -> Cancellable:
        """Register a schedule; raises ValueError for an interval below 1 ms or an unknown clock."""
        if interval < 1:
            raise ValueError(f"a schedule's interval must be at least 1 ms, got {interval}")
        if clock not in self._entries:
            raise ValueError(f"clock must be 'stream' or 'wall', got {clock!r}")
        number = self._made[node.name] = self._made.get(node.name, 0) + 1
        first = 0 if clock == "stream" else self._host.wall_clock() + interval
        due = self._host.cell(node.name, f"{clock} schedule {number}", first)
        entry = _Entry(node, interval, callback, due)
        self._entries[clock].append(entry)
        return Cancellable(entry)

    def stream_time_passed(self, sub_topology: int, now: int) -> int:
        """Fire what is due in a sub-topology; returns how many fired."""
        if not self._entries["stream"]:
            return 0
        return self._fire("stream", now, [e for e in self._entries["stream"] if e.node.sub_topology == sub_topology])

    def wall_clock_passed(self, now: int) -> int:
        """Fire what is due by the wall clock; returns how many fired."""
        return self._fire("wall", now, list(self._entries["wall"])) if self._entries["wall"] else 0

    @property
    def on_stream_time(self) -> bool:
        """Whether anything waits for stream time."""
        return bool(self._entries["stream"])

    def _fire(self, clock: str, now: int, entries: list[_Entry]) -> int:
        fired = 0
        for entry in sorted(entries, key=lambda e: e.due.value):
            if entry.cancelled or now < entry.due.value:
                continue
            entry.due.value = now + entry.interval - (now - entry.due.value) % entry.interval
            try:
                entry.callback(now)
            except Exception as error:
                entry.node.failed(error, None, None, now, {})
            fired += 1
        self._entries[clock] = [e for e in self._entries[clock] if not e.cancelled]
        return fired
