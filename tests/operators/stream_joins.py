"""Joins of two streams, as the tests of joins describe them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raystreams import JoinWindows, KStream, StreamsBuilder, Topology
from tests.operators.scenario import dashed

METHODS = ("join", "left_join", "outer_join")

Keyed = Callable[[KStream[Any, Any]], KStream[Any, Any]]


def joined(
    method: str,
    *,
    before: int = 0,
    after: int = 0,
    grace: int = 0,
    joiner: Callable[..., Any] = dashed,
    keyed: Keyed = lambda stream: stream,
    **options: Any,
) -> Topology:
    """Streams L and R joined; `keyed` may change both keys."""
    builder = StreamsBuilder()
    left, right = keyed(builder.stream("L")), keyed(builder.stream("R"))
    windows = JoinWindows(before=before, after=after, grace=grace)
    getattr(left, method)(right, joiner, windows=windows, **options).to("out")
    return builder.build()


def self_joined(
    method: str, *, before: int = 0, after: int = 0, keyed: Keyed = lambda stream: stream
) -> Topology:
    """Stream L joined with itself."""
    builder = StreamsBuilder()
    stream = keyed(builder.stream("L"))
    getattr(stream, method)(stream, dashed, windows=JoinWindows(before=before, after=after)).to("out")
    return builder.build()
