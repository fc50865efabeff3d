"""What running a job raises. The root, `RaystreamsError`, is in `raystreams.stores.errors`.

    RaystreamsError
    ├── ConfigError           a setting of a job is unknown, missing or wrong
    ├── SourceError           what a source reads can't be read, or isn't what it was
    │   └── BadRowError           a row is malformed, and its source says `on_error = "fail"`
    ├── SinkError             a sink can't write, or what it had written was changed
    ├── NotAvailableError     a query can't be answered now; `.retry` says if trying again helps
    └── RetryLater            raised by a user's sink, to be asked again

`args` of each are its constructor's arguments: an error has to survive pickling to reach a Ray caller (layout rule 7).
"""

from __future__ import annotations

from datetime import timedelta

from raystreams.stores.errors import RaystreamsError


class ConfigError(RaystreamsError):
    """A setting is unknown, missing or wrong; the text names the file, the table, the key, and what to write instead."""


class SourceError(RaystreamsError):
    """A source can't be read, or is no longer what had been read of it; the text names the file and what to do."""


class SinkError(RaystreamsError):
    """A sink can't write, or what it had written and committed is no longer there; the text says what to do."""


class BadRowError(SourceError):
    """A row of a source is malformed."""

    def __init__(self, topic: str, file: str, line: int, text: str, reason: str) -> None:
        super().__init__(topic, file, line, text, reason)
        self.topic, self.file, self.line, self.text, self.reason = topic, file, line, text, reason

    def __str__(self) -> str:
        text = self.text if len(self.text) <= 200 else self.text[:200] + "…"
        return (
            f"{self.file}:{self.line}: {self.reason}. The row is {text!r}. Mend it, or let such rows pass by: "
            f'on_error = "skip" of the source {self.topic!r} counts them, "dead-letter:TOPIC" keeps them'
        )


class NotAvailableError(RaystreamsError):
    """A query can't be answered now: the job is restoring, fenced or unknown. `retry`: trying again helps."""

    def __init__(self, text: str, retry: bool = False) -> None:
        super().__init__(text, retry)
        self.retry = retry

    def __str__(self) -> str:
        return str(self.args[0])


class JobFailedError(RaystreamsError):
    """A job in a cluster has failed; `error` is what its task, or its manager, told. Its state is kept."""

    def __init__(self, job: str, error: str) -> None:
        super().__init__(job, error)
        self.job, self.error = job, error

    def __str__(self) -> str:
        return f"the job {self.job!r} has failed: {self.error}"


class RetryLater(RaystreamsError):
    """A sink raises it to be asked again with the same batch, `after` that many seconds or that timedelta."""

    def __init__(self, after: float | timedelta) -> None:
        super().__init__(after)
        self.seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)

    def __str__(self) -> str:
        return f"ask again in {self.seconds:g} s"
