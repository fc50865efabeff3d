"""The collector, while a job runs.

Records on their way are containers: tens of thousands of tuples and dicts that live for a moment. With Python's defaults the
collector looks at all of them every few hundred records; that took a fifth of a run (docs/performance.md). What lives long
before the run is frozen, and the thresholds are raised. Cycles are still found, only later; afterwards all is as it was.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (50_000, 20, 50)


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Collect more rarely inside the block; thresholds that are higher already, or a collector that is off, stay so."""
    before = gc.get_threshold()
    if not gc.isenabled() or before[0] == 0 or before[0] >= _THRESHOLDS[0]:
        yield
        return
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
