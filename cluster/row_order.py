"""The order of rows of several keys, to merge partitions: the one that a store of a single partition gives.

    key-value stores               key
    window stores                  segment of start, key, start        by time, of a `time_first` store: start, key
    session stores                 segment of end, key, end, start

So the answer of a job doesn't depend on how many partitions it has, and sorted partitions can be merged as they come.
Keys are encoded here, whose bytes sort as keys do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Place = Callable[[bytes, int, int], Any]
"""Where a row stands, of its encoded key, start and end; both are 0 where rows have no times."""

_BY_TIME = frozenset({"all", "backward_all", "fetch_all", "backward_fetch_all"})


def is_reverse(method: str) -> bool:
    """Tell whether a method gives rows from the last to the first."""
    return method.startswith(("reverse", "backward"))


def row_order(kind: str, settings: Mapping[str, Any], method: str) -> Place:
    """Return the place of rows that a method of a kind of store gives, in forward order."""
    if kind in ("window", "timestamped_window"):
        if settings["time_first"] and method in _BY_TIME:
            return lambda key, start, end: (start, key)
        interval: int = settings["segment_interval"]
        return lambda key, start, end: (start // interval, key, start)
    if kind == "session":
        length: int = settings["segment_interval"]
        return lambda key, start, end: (end // length, key, end, start)
    return lambda key, start, end: key
