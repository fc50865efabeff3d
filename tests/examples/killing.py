"""A JSON-lines sink whose process dies: `kill -9` once this run has been given so many committed records.

The environment says when and how, so that the job file is the same for the run that dies and the one that finishes:

    KILL_AT=12000     when that many records have been handed to the sinks in this run
    KILL_HOW=before   before the batch is written: committed, and nothing of it outside
             after    when it is written and its position is not yet committed
             torn     when half of its bytes are written
             soon     some milliseconds later (KILL_LATER), wherever the process is then
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import raystreams as rs

_given = 0


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class KillingJsonl:
    """Write as `JsonLinesSink` does, until the moment comes."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, partition: int, position: Any) -> KillingWriter:
        return KillingWriter(Path(self.path), rs.JsonLinesSink(self.path).open(partition, position))


class KillingWriter:
    def __init__(self, path: Path, writer: rs.SinkWriter[Any, Any]) -> None:
        self._path, self._writer = path, writer

    def write(self, batch: rs.SinkBatch[Any, Any]) -> Any:
        global _given
        _given += len(batch.records)
        how = os.environ.get("KILL_HOW") if _given >= int(os.environ.get("KILL_AT", "-1")) >= 0 else None
        if how == "before":
            _die()
        if how == "soon":
            threading.Timer(int(os.environ["KILL_LATER"]) / 1000, _die).start()
        before = self._sizes()
        position = self._writer.write(batch)
        if how == "torn":
            for path, size in self._sizes().items():
                os.truncate(path, (before.get(path, 0) + size) // 2)
        if how in ("after", "torn"):
            _die()
        return position

    def close(self) -> None:
        self._writer.close()

    def _sizes(self) -> dict[Path, int]:
        return {path: path.stat().st_size for path in self._path.iterdir()} if self._path.exists() else {}
