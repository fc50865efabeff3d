"""Naive models of the stores: sets of versions, dicts of windows, no layout, no cache, nothing ever deleted for space.

They know what the contracts say (spec-stores 2, 4, 5, 6) and nothing else; state is one dict, so that a commit is a copy of it.
"""

from __future__ import annotations

import copy
from itertools import zip_longest
from typing import Any

from raystreams.stores.values import PUT_LATEST, PUT_REFUSED


class Model:
    """State that can be committed, and fall back to what was."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"rows": {}, "observed": -1, "sequence": 0}
        self.commit()

    def commit(self) -> None:
        self.kept = copy.deepcopy(self.state)

    def crash(self) -> None:
        self.state = copy.deepcopy(self.kept)

    @property
    def rows(self) -> dict[Any, Any]:
        rows: dict[Any, Any] = self.state["rows"]
        return rows

    @property
    def observed(self) -> int:
        observed: int = self.state["observed"]
        return observed

    def observe(self, time: int) -> None:
        self.state["observed"] = max(self.observed, time)


class KeyValueModel(Model):
    """One value a key."""

    def put(self, key: Any, value: Any) -> None:
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

    def range(self, first: Any, last: Any) -> list[Any]:
        return [
            (key, self.rows[key])
            for key in sorted(self.rows)
            if (first is None or key >= first) and (last is None or key <= last)
        ]


class VersionedModel(Model):
    """A set of versions a key: {time: value or None}."""

    def __init__(self, retention: int) -> None:
        super().__init__()
        self.retention = retention

    def versions(self, key: Any) -> list[tuple[int, Any, int | None]]:
        times = sorted(self.rows.get(key, {}))
        return [(at, self.rows[key][at], end) for at, end in zip_longest(times, times[1:])]

    def put(self, key: Any, value: Any, at: int) -> int:
        if at < self.observed - self.retention:
            return PUT_REFUSED
        self.observe(at)
        self.rows.setdefault(key, {})[at] = value
        following = [time for time in self.rows[key] if time > at]
        return min(following) if following else PUT_LATEST

    def get(self, key: Any) -> Any:
        latest = self.versions(key)[-1:]
        return latest[0] if latest and latest[0][1] is not None else None

    def get_as_of(self, key: Any, at: int) -> Any:
        versions = self.versions(key)
        if versions and versions[-1][0] <= at:
            return self.get(key)
        if at < self.observed - self.retention:
            return None
        alive = [version for version in versions if version[0] <= at]
        return alive[-1] if alive and alive[-1][1] is not None else None

    def delete(self, key: Any, at: int) -> Any:
        if at < self.observed - self.retention:
            return None
        old = self.get_as_of(key, at)
        self.put(key, None, at)
        return old

    def history(self, key: Any, start: int, end: int) -> list[Any]:
        first = max(start, self.observed - self.retention)
        return [
            version
            for version in self.versions(key)
            if version[1] is not None and version[0] <= end and (version[2] is None or version[2] > first)
        ]


class WindowModel(Model):
    """Rows by key, start and arrival; live by the largest start."""

    def __init__(self, retention: int, interval: int, size: int, *, duplicates: bool, time_first: bool) -> None:
        super().__init__()
        self.retention, self.interval, self.size = retention, interval, size
        self.duplicates, self.time_first = duplicates, time_first

    @property
    def live(self) -> int:
        return self.observed - self.retention + (0 if self.time_first else 1)

    def put(self, key: Any, value: Any, start: int) -> None:
        self.observe(start)
        if start < self.live:
            return
        if self.duplicates:
            if value is None:
                return
            self.state["sequence"] += 1
            self.rows[key, start, self.state["sequence"]] = value
        elif value is None:
            self.rows.pop((key, start, 0), None)
        else:
            self.rows[key, start, 0] = value

    def shown(self, start: int, end: int) -> list[tuple[Any, int, int, Any]]:
        low = max(start, self.live)
        return [(key, at, number, value) for (key, at, number), value in self.rows.items() if low <= at <= end]

    def fetch(self, key: Any, start: int, end: int) -> list[tuple[int, Any]]:
        rows = sorted((row for row in self.shown(start, end) if row[0] == key), key=lambda row: (row[1], row[2]))
        return [(row[1], row[3]) for row in rows]

    def fetch_range(self, first: Any, last: Any, start: int, end: int) -> list[Any]:
        rows = [
            row
            for row in self.shown(start, end)
            if (first is None or row[0] >= first) and (last is None or row[0] <= last)
        ]
        rows.sort(key=lambda row: (row[1] // self.interval, row[0], row[1], row[2]))
        return [((row[0], row[1], row[1] + self.size), row[3]) for row in rows]

    def fetch_all(self, start: int, end: int) -> list[Any]:
        if not self.time_first:
            return self.fetch_range(None, None, start, end)
        rows = sorted(self.shown(start, end), key=lambda row: (row[1], row[0], row[2]))
        return [((row[0], row[1], row[1] + self.size), row[3]) for row in rows]


class SessionModel(Model):
    """Rows by key, end and start; live by the largest end."""

    def __init__(self, retention: int, interval: int) -> None:
        super().__init__()
        self.retention, self.interval = retention, interval

    @property
    def live(self) -> int:
        return self.observed - self.retention + 1

    def put(self, key: Any, start: int, end: int, value: Any) -> None:
        self.observe(end)
        if end < self.live:
            return
        if value is None:
            self.rows.pop((key, end, start), None)
        else:
            self.rows[key, end, start] = value

    def find(self, first: Any, last: Any, earliest_end: int, latest_start: int) -> list[Any]:
        rows = [
            (key, start, end, value)
            for (key, end, start), value in self.rows.items()
            if end >= max(earliest_end, self.live)
            and start <= latest_start
            and (first is None or key >= first)
            and (last is None or key <= last)
        ]
        rows.sort(key=lambda row: (row[2] // self.interval, row[0], row[2], row[1]))
        return [((key, start, end), value) for key, start, end, value in rows]
