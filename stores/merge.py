"""Rows of two sorted sources as one: what isn't committed yet over what is.

On equal keys the upper row counts and both sides go on; an upper None drops the pair. A deletion whose key the lower
side hasn't reached yet waits until it has, in either direction: thrown away earlier, the deleted row would come back
(KAFKA-18326).
"""

from __future__ import annotations

from collections.abc import Iterator

Row = tuple[bytes, bytes | None]


def merged(
    first: Row, over: Iterator[Row], under: Iterator[tuple[bytes, bytes]], *, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of both in order, both sorted in the direction that is told; `first` is the first of the upper."""
    upper: Row | None = first
    for lower in under:
        key = lower[0]
        while upper is not None and (upper[0] > key if reverse else upper[0] < key):
            if upper[1] is not None:
                yield upper  # type: ignore[misc]  # mypy does not narrow parts of a tuple
            upper = next(over, None)
        if upper is not None and upper[0] == key:
            if upper[1] is not None:
                yield upper  # type: ignore[misc]  # as above
            upper = next(over, None)
        else:
            yield lower
        if upper is None:
            yield from under
            return
    while upper is not None:
        if upper[1] is not None:
            yield upper  # type: ignore[misc]  # as above
        upper = next(over, None)
