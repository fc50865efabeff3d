"""What operators raise. The roots (`RaystreamsError`, `SerdeError`, `StoreError`) live in `raystreams.stores.errors`.

    RaystreamsError
    ├── TopologyError        what was described can't be
    ├── ProcessingError      a user's function raised; names operator, topic, partition, position, key and time
    ├── BufferFullError      a bounded suppress buffer is full and may not emit early
    └── UnsupportedVersionError   a task got a message that a newer version wrote
"""

from __future__ import annotations

from typing import Any

from raystreams.stores.errors import RaystreamsError


class TopologyError(RaystreamsError):
    """What was described can't be run; the text says which operator and what to change."""


class BufferFullError(RaystreamsError):
    """A suppress buffer with a bound is full, and its `when_full` forbids to emit early (KIP-328)."""

    def __init__(self, operator: str, records: int, max_records: int | None, size_bytes: int, max_bytes: int | None) -> None:
        super().__init__(operator, records, max_records, size_bytes, max_bytes)
        self.operator = operator

    def __str__(self) -> str:
        operator, records, max_records, size_bytes, max_bytes = self.args
        return (
            f"the buffer of {operator!r} exceeded its max capacity: {records} records (limit {max_records or 'none'}), "
            f"{size_bytes} bytes (limit {max_bytes or 'none'}). Raise the limit, or emit early with when_full='emit'"
        )


class ProcessingError(RaystreamsError):
    """A user's function raised. `__cause__` is what it raised; nothing of the batch was committed."""

    def __init__(
        self, operator: str, topic: str | None, partition: int, position: Any, key: Any, timestamp: int, cause: str
    ) -> None:
        super().__init__(operator, topic, partition, position, key, timestamp, cause)
        self.operator, self.topic, self.partition, self.position = operator, topic, partition, position
        self.key, self.timestamp = key, timestamp

    def __str__(self) -> str:
        operator, topic, partition, position, key, timestamp, cause = self.args
        return (
            f"{operator!r} failed on key {key!r} at time {timestamp} (topic {topic!r}, partition {partition}, "
            f"position {position!r}): {cause}. Fix the function, or set on_error='skip' or DeadLetter(topic)"
        )


class UnsupportedVersionError(RaystreamsError):
    """A message was written by a newer version of raystreams."""

    def __init__(self, message: str, version: int, known: int) -> None:
        super().__init__(message, version, known)

    def __str__(self) -> str:
        message, version, known = self.args
        return f"a {message} of version {version} arrived, and only versions up to {known} are known here: upgrade this task"
