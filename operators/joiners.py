"""How joins call a user's joiner. It takes (left, right), or (key, left, right) if it was given `with_key`.

    own_first     for the two sides of a join: their own value first, whichever side they are
    lookup_join   for stream records that are joined with one row of a table, found at once
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.record import Headers, Process

SideJoiner = Callable[[Any, Any, Any], Any]
"""(key, own value, other value)"""


def own_first(joiner: Callable[..., Any], *, with_key: bool, is_left: bool) -> SideJoiner:
    """The joiner as one side calls it."""
    if with_key:
        return joiner if is_left else lambda key, own, other: joiner(key, other, own)
    return (lambda key, own, other: joiner(own, other)) if is_left else (lambda key, own, other: joiner(other, own))


def lookup_join(
    node: NodeRuntime, find: Callable[[Any, Any, int], Any], joiner: Callable[..., Any], *, with_key: bool, left: bool
) -> Process:
    """Join each record with the row that `find(key, value, timestamp)` gives; without one a left join takes None.

    The result has the record's key, time and headers.
    """
    forward, failed = node.forward, node.failed

    def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            row = find(key, value, timestamp)
            if row is not None:
                other = row.value
            elif left:
                other = None
            else:
                return
            result = joiner(key, value, other) if with_key else joiner(value, other)
        except Exception as error:
            return failed(error, key, value, timestamp, headers)
        forward(key, result, timestamp, headers)

    return join
