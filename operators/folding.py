"""Calling a user's aggregation functions: what they get is theirs, what they return is checked.

The aggregate handed to a function is decoded for that call, so it may be changed and returned. None deletes; but None after
changing the aggregate in place is a forgotten `return`, and a TypeError rather than a lost row. A subtractor that has taken
the last thing out, so that the aggregate is what the initializer gives, may well return None.

That None was a mistake is found by making what the function was given once more: nothing is paid for it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raystreams.stores.serdes import Serde

IMMUTABLE = (int, float, str, bytes, bool, type(None))
"""Types of aggregates that no function can change."""


class Folds:
    """Checks for one aggregation; `fresh(*at)` makes what a function was given once more, `empty` makes an empty one."""

    def __init__(self, value: Serde[Any], empty: Callable[[], Any] | None = None) -> None:
        self._encode, self._empty = value.encode, empty

    def check(self, result: Any, given: Any, fresh: Callable[..., Any], *at: Any) -> Any:
        """Return `result`; raises TypeError if it is None and `given` was changed."""
        if result is None and type(given) not in IMMUTABLE:
            before, empty = fresh(*at), None if self._empty is None else self._empty()
            if empty is not None and self._encode(given) == self._encode(empty):
                return None
            if before is None or self._encode(given) != self._encode(before):
                raise TypeError(
                    f"the function changed its aggregate to {given!r} and returned None: return the aggregate; to delete the "
                    "row return None and leave the aggregate as it is"
                )
        return result


def copy_for_old(given: Any, fresh: Callable[..., Any], *at: Any) -> Any:
    """A value for `Change.old` that a function which is given `given` can't change."""
    return given if type(given) in IMMUTABLE else fresh(*at)


def counted(key: Any, value: Any, aggregate: int) -> int:
    """The aggregator of `count`."""
    return aggregate + 1


def uncounted(key: Any, value: Any, aggregate: int) -> int:
    """The subtractor of `count`."""
    return aggregate - 1


def added(key: Any, a: int, b: int) -> int:
    """The merger of `count`."""
    return a + b


def zero() -> int:
    """The initializer of `count`."""
    return 0


def nothing() -> None:
    """The initializer of `reduce`: there is no aggregate before the first value."""
    return None


def reducing(reducer: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A reducer as an aggregator: the first value is taken as it is, without a call."""
    return lambda key, value, aggregate: value if aggregate is None else reducer(aggregate, value)


def merging(reducer: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A reducer as the merger of sessions."""
    return lambda key, a, b: b if a is None else reducer(a, b)
