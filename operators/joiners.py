"""A user's joiner as the sides of a join call it: their own value first, whichever side they are.

The user's function takes (left, right), or (key, left, right) if it was given `with_key`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SideJoiner = Callable[[Any, Any, Any], Any]
"""(key, own value, other value)"""


def own_first(joiner: Callable[..., Any], *, with_key: bool, is_left: bool) -> SideJoiner:
    """The joiner as one side calls it."""
    if with_key:
        return joiner if is_left else lambda key, own, other: joiner(key, other, own)
    return (lambda key, own, other: joiner(own, other)) if is_left else (lambda key, own, other: joiner(other, own))
