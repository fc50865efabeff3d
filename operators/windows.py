"""Windows: how time is cut. All lengths are kept in milliseconds (`int`), whatever they were given as.

Time and unlimited windows are `[start, end)`; sliding and session windows include both ends (as in Kafka). Source:
spec-runtime 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from raystreams.stores.values import MAX_TIME, Duration, duration_milliseconds


def _set(target: object, **values: int) -> None:
    for name, value in values.items():
        object.__setattr__(target, name, value)


def _not_negative(value: int, what: str) -> int:
    if value < 0:
        raise ValueError(f"{what} must not be negative, got {value} ms")
    return value


@dataclass(frozen=True, slots=True, init=False)
class TimeWindows:
    """Tumbling windows of `size`, or hopping ones with an `advance` of at most the size; aligned to the epoch.

    `grace` is how long after a window's end late records still count. Raises ValueError for a size or advance that is not
    positive, an advance above the size, or a negative grace.
    """

    size: int
    advance: int
    grace: int

    def __init__(self, size: Duration, *, advance: Duration | None = None, grace: Duration = 0) -> None:
        length = duration_milliseconds(size, what="size")
        step = length if advance is None else duration_milliseconds(advance, what="advance")
        if length <= 0:
            raise ValueError(f"a window's size must be positive, got {length} ms")
        if not 0 < step <= length:
            raise ValueError(f"advance must be positive and at most the size ({length} ms), got {step} ms")
        _set(self, size=length, advance=step, grace=_not_negative(duration_milliseconds(grace, what="grace"), "grace"))

    def starts(self, timestamp: int) -> range:
        """The starts of all windows that hold `timestamp`, ascending; none is negative."""
        first = max(0, timestamp - self.size + self.advance) // self.advance * self.advance
        return range(first, timestamp + 1, self.advance)


@dataclass(frozen=True, slots=True, init=False)
class SlidingWindows:
    """One window for each distinct set of records of a key that lie within `time_difference` of each other (KIP-450)."""

    time_difference: int
    grace: int

    def __init__(self, time_difference: Duration, *, grace: Duration = 0) -> None:
        difference = duration_milliseconds(time_difference, what="time_difference")
        if difference <= 0:
            raise ValueError(f"time_difference must be positive, got {difference} ms")
        _set(self, time_difference=difference, grace=_not_negative(duration_milliseconds(grace, what="grace"), "grace"))


@dataclass(frozen=True, slots=True, init=False)
class SessionWindows:
    """Records of a key that follow one another by at most `inactivity_gap` (inclusive) are one session."""

    inactivity_gap: int
    grace: int

    def __init__(self, inactivity_gap: Duration, *, grace: Duration = 0) -> None:
        gap = _not_negative(duration_milliseconds(inactivity_gap, what="inactivity_gap"), "inactivity_gap")
        _set(self, inactivity_gap=gap, grace=_not_negative(duration_milliseconds(grace, what="grace"), "grace"))


@dataclass(frozen=True, slots=True, init=False)
class UnlimitedWindows:
    """One window `[start, infinity)`; records before `start` belong to none. It never closes."""

    start: int

    def __init__(self, start: Duration = 0) -> None:
        _set(self, start=_not_negative(duration_milliseconds(start, what="start"), "start"))

    @property
    def size(self) -> int:
        """Up to the end of time."""
        return MAX_TIME

    @property
    def grace(self) -> int:
        """None: nothing is late for a window without an end."""
        return 0

    def starts(self, timestamp: int) -> range:
        """The one start, or nothing before it."""
        return range(self.start, self.start + 1) if timestamp >= self.start else range(0)


@dataclass(frozen=True, slots=True, init=False)
class JoinWindows:
    """A left record at `t` matches right records from `t - before` to `t + after`, both included.

    One of them may be negative as long as `before + after >= 0`. Results without a match come out when `grace` is over.
    """

    before: int
    after: int
    grace: int

    def __init__(self, *, before: Duration = 0, after: Duration = 0, grace: Duration = 0) -> None:
        b, a = duration_milliseconds(before, what="before"), duration_milliseconds(after, what="after")
        if a + b < 0:
            raise ValueError(f"the window would be empty: before ({b} ms) + after ({a} ms) must not be negative")
        _set(self, before=b, after=a, grace=_not_negative(duration_milliseconds(grace, what="grace"), "grace"))

    @classmethod
    def of(cls, difference: Duration, grace: Duration = 0) -> JoinWindows:
        """The symmetric window: records at most `difference` apart."""
        return cls(before=difference, after=difference, grace=grace)
