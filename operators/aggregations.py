"""Ready-made aggregations: adder, subtractor and merger in one, for `apply` of anything that is grouped.

    grouped.apply(Aggregates(Stats, n=Count(), mean=Mean(lambda reading: reading.celsius)))

A user says what (`Aggregation`); bound to the type of the values it becomes a `Fold`, which keeps a state of plain data. Null
records, and `of(value)` that is None, change nothing, as in SQL.

Where rows go again (grouped tables) Min, Max, First and Last must keep all values, as Collect does; of streams they keep one.
Sums of floats are exact (Shewchuk's partial sums), so that what is taken away leaves nothing behind: 0.1 + 0.2 - 0.1 - 0.2 is
0, in whatever order records come. First and Last go by arrival, and by time between sessions that merge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, Protocol

import msgpack
from raystreams.operators.hints import DeclaredOrPlain, check_function, value_of
from raystreams.stores.serdes import Serde, ValueSerde, value_serde
from typing_extensions import TypeVar

VI = TypeVar("VI", contravariant=True)
R = TypeVar("R", covariant=True)
N = TypeVar("N")


class Fold(Protocol):
    """An aggregation at work. Its state may be changed in place; `pack` makes plain data of it."""

    description: str
    result: ValueSerde[Any]

    def initial(self) -> Any: ...
    def add(self, state: Any, value: Any) -> Any: ...
    def subtract(self, state: Any, value: Any) -> Any: ...
    def merge(self, a: Any, b: Any) -> Any: ...
    def finish(self, state: Any) -> Any: ...
    def pack(self, state: Any) -> Any: ...
    def unpack(self, data: Any) -> Any: ...


class Aggregation(Generic[VI, R]):
    """What is to be made of the values of a group, for `apply`: Count, Sum, Min, Max, Mean, First, Last, Collect, Aggregates."""

    def fold(self, value: ValueSerde[Any], *, retracts: bool) -> Fold:
        """Bind to the values' type; `retracts` where values can be taken away again."""
        raise NotImplementedError


class Count(Aggregation[Any, int]):
    """The number of records."""

    def fold(self, value: ValueSerde[Any], *, retracts: bool) -> Fold:
        """Count."""
        return _CountFold()


class _Of(Aggregation[VI, R], Generic[VI, N, R]):
    """An aggregation of what `of` makes of each value; `value` says its type, if `of` does not."""

    def __init__(self, of: Callable[[VI], N | None], *, value: type[N] | Serde[N] | None = None) -> None:
        self._of, self._hint = check_function(of, "of"), value

    def fold(self, value: ValueSerde[Any], *, retracts: bool) -> Fold:
        """Bind to the type that `of` returns. One that says nothing may return the value itself, or plain data."""
        item = value_of(self._of, self._hint)
        if item.hint is None and value.hint is not None:
            item = value_serde(DeclaredOrPlain(value))
        return self._bind(item, retracts)

    def _bind(self, item: ValueSerde[Any], retracts: bool) -> Fold:
        raise NotImplementedError


class Sum(_Of[VI, N, N]):
    """The sum of `of(value)`: int, float or Decimal. 0 where there is none."""

    def _bind(self, item: ValueSerde[Any], retracts: bool) -> Fold:
        return _SumFold(self._of, item)


class Mean(_Of[VI, float, float]):
    """The mean of `of(value)`; None where there is none."""

    def _bind(self, item: ValueSerde[Any], retracts: bool) -> Fold:
        return _MeanFold(self._of)


class Min(_Of[VI, N, N]):
    """The smallest `of(value)`; None where there is none."""

    def _bind(self, item: ValueSerde[Any], retracts: bool) -> Fold:
        return _ListFold("min", self._of, item, min, keeps_all=retracts)


class Max(_Of[VI, N, N]):
    """The largest `of(value)`; None where there is none."""

    def _bind(self, item: ValueSerde[Any], retracts: bool) -> Fold:
        return _ListFold("max", self._of, item, max, keeps_all=retracts)


class First(_Of[VI, N, N]):
    """`of(value)` of the record that arrived first; None where there is none."""

    def _bind(self, item: ValueSerde[Any], retracts: bool) -> Fold:
        return _ListFold("first", self._of, item, _first, keeps_all=retracts)


class Last(_Of[VI, N, N]):
    """`of(value)` of the record that arrived last; of a table, of the row that was changed last. None where there is none."""

    def _bind(self, item: ValueSerde[Any], retracts: bool) -> Fold:
        return _ListFold("last", self._of, item, _last, keeps_all=retracts)


class Collected(_Of[VI, N, list[N]]):
    """All `of(value)` as a list, in order of arrival. Each record rewrites the whole list: for small groups.

    `raystreams.Collect` is this and the sink of that name.
    """

    def _bind(self, item: ValueSerde[Any], retracts: bool) -> Fold:
        return _CollectFold(self._of, item)


class Aggregates(Aggregation[VI, R]):
    """Several aggregations at once: `result(**parts)`, a class with these fields or any function of these names."""

    def __init__(self, result: Callable[..., R], **parts: Aggregation[VI, Any]) -> None:
        self._result, self._parts = check_function(result, "result"), parts
        if not parts:
            raise ValueError("Aggregates needs at least one part, as in Aggregates(Stats, n=Count())")
        for name, part in parts.items():
            if not isinstance(part, Aggregation):
                raise TypeError(f"{name}= must be an aggregation such as Count(), got {part!r}")

    def fold(self, value: ValueSerde[Any], *, retracts: bool) -> Fold:
        """Bind all parts."""
        parts = {name: part.fold(value, retracts=retracts) for name, part in self._parts.items()}
        return _AggregatesFold(self._result, parts)


# ---- at work --------------------------------------------------------------------------------------------------------


class _CountFold:
    description = "count"

    def __init__(self) -> None:
        self.result = value_serde(int)

    def initial(self) -> int:
        return 0

    def add(self, state: int, value: Any) -> int:
        return state + 1

    def subtract(self, state: int, value: Any) -> int:
        return state - 1

    def merge(self, a: int, b: int) -> int:
        return a + b

    def finish(self, state: int) -> int:
        return state

    def pack(self, state: int) -> int:
        return state

    def unpack(self, data: int) -> int:
        return data


class _SumFold:
    """State: [exact sum of what is not a float, partial sums of the floats, how many are inf, -inf and nan]."""

    description = "sum"

    def __init__(self, of: Callable[[Any], Any], item: ValueSerde[Any]) -> None:
        self._of, self.result = of, item

    def initial(self) -> list[Any]:
        return [0, [], [0, 0, 0]]

    def add(self, state: list[Any], value: Any) -> list[Any]:
        item = self._of(value)
        if item is not None:
            self._put(state, item, 1)
        return state

    def subtract(self, state: list[Any], value: Any) -> list[Any]:
        item = self._of(value)
        if item is not None:
            self._put(state, item, -1)
        return state

    def _put(self, state: list[Any], item: Any, sign: int) -> None:
        if not isinstance(item, float):
            state[0] += sign * item
        elif math.isfinite(item):
            _add_exactly(state[1], sign * item)
        else:
            state[2][2 if math.isnan(item) else 0 if item > 0 else 1] += sign

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        a[0] += b[0]
        for partial in b[1]:
            _add_exactly(a[1], partial)
        a[2] = [x + y for x, y in zip(a[2], b[2], strict=True)]
        return a

    def finish(self, state: list[Any]) -> Any:
        exact, partials, (plus, minus, nan) = state
        if nan or (plus and minus):
            return math.nan
        if plus or minus:
            return math.inf if plus else -math.inf
        return exact + math.fsum(partials) if partials else exact

    def pack(self, state: list[Any]) -> list[Any]:
        return state

    def unpack(self, data: list[Any]) -> list[Any]:
        return data


class _MeanFold:
    description = "mean"

    def __init__(self, of: Callable[[Any], Any]) -> None:
        self._of, self.result = of, value_serde(None)
        self._sum = _SumFold(lambda item: item, self.result)

    def initial(self) -> list[Any]:
        return [0, self._sum.initial()]

    def add(self, state: list[Any], value: Any) -> list[Any]:
        return self._put(state, self._of(value), 1)

    def subtract(self, state: list[Any], value: Any) -> list[Any]:
        return self._put(state, self._of(value), -1)

    def _put(self, state: list[Any], item: Any, sign: int) -> list[Any]:
        if item is not None:
            state[0] += sign
            self._sum._put(state[1], item, sign)
        return state

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [a[0] + b[0], self._sum.merge(a[1], b[1])]

    def finish(self, state: list[Any]) -> Any:
        return self._sum.finish(state[1]) / state[0] if state[0] else None

    def pack(self, state: list[Any]) -> list[Any]:
        return state

    def unpack(self, data: list[Any]) -> list[Any]:
        return data


class _ListFold:
    """Keeps all values, or the one that `pick` picks."""

    def __init__(
        self, description: str, of: Callable[[Any], Any], item: ValueSerde[Any], pick: Callable[[list[Any]], Any], *,
        keeps_all: bool,
    ) -> None:
        self.description = f"{description} of {item.description}"
        self.result, self._of, self._item, self._pick, self._keeps_all = item, of, item, pick, keeps_all

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], value: Any) -> list[Any]:
        item = self._of(value)
        return state if item is None else self._picked([*state, item])

    def subtract(self, state: list[Any], value: Any) -> list[Any]:
        item = self._of(value)
        if item is not None and item in state:
            state.remove(item)
        return state

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return self._picked([*a, *b])

    def _picked(self, items: list[Any]) -> list[Any]:
        return [self._pick(items)] if items and not self._keeps_all else items

    def finish(self, state: list[Any]) -> Any:
        return self._pick(state) if state else None

    def pack(self, state: list[Any]) -> list[bytes]:
        return [self._item.encode(item) for item in state]

    def unpack(self, data: list[bytes]) -> list[Any]:
        return [self._item.decode(item) for item in data]


class _CollectFold(_ListFold):
    def __init__(self, of: Callable[[Any], Any], item: ValueSerde[Any]) -> None:
        super().__init__("collect", of, item, list, keeps_all=True)
        self.result = value_serde(ListSerde(item))

    def finish(self, state: list[Any]) -> Any:
        return state


class _AggregatesFold:
    def __init__(self, result: Callable[..., Any], parts: dict[str, Fold]) -> None:
        self._make, self._names, self._folds = result, list(parts), list(parts.values())
        self.result = value_of(result, None)
        self.description = ", ".join(f"{name}: {fold.description}" for name, fold in parts.items())

    def initial(self) -> list[Any]:
        return [fold.initial() for fold in self._folds]

    def add(self, state: list[Any], value: Any) -> list[Any]:
        return [fold.add(part, value) for fold, part in zip(self._folds, state, strict=True)]

    def subtract(self, state: list[Any], value: Any) -> list[Any]:
        return [fold.subtract(part, value) for fold, part in zip(self._folds, state, strict=True)]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [fold.merge(x, y) for fold, x, y in zip(self._folds, a, b, strict=True)]

    def finish(self, state: list[Any]) -> Any:
        finished = (fold.finish(part) for fold, part in zip(self._folds, state, strict=True))
        return self._make(**dict(zip(self._names, finished, strict=True)))

    def pack(self, state: list[Any]) -> list[Any]:
        return [fold.pack(part) for fold, part in zip(self._folds, state, strict=True)]

    def unpack(self, data: list[Any]) -> list[Any]:
        return [fold.unpack(part) for fold, part in zip(self._folds, data, strict=True)]


class ListSerde:
    """Lists of what `item` encodes."""

    def __init__(self, item: ValueSerde[Any]) -> None:
        self._item, self.description = item, f"list of {item.description}"

    def encode(self, items: list[Any]) -> bytes:
        """The bytes of a list."""
        data: bytes = msgpack.packb([self._item.encode(item) for item in items])
        return data

    def decode(self, data: bytes) -> list[Any]:
        """The list of bytes."""
        return [self._item.decode(item) for item in msgpack.unpackb(data)]


def _first(items: list[Any]) -> Any:
    return items[0]


def _last(items: list[Any]) -> Any:
    return items[-1]


def _add_exactly(partials: list[float], x: float) -> None:
    """Add to partial sums that do not overlap, losing nothing (Shewchuk 1997); never leaves the list empty."""
    kept = 0
    for y in partials:
        if abs(x) < abs(y):
            x, y = y, x
        high = x + y
        low = y - (high - x)
        if low:
            partials[kept] = low
            kept += 1
        x = high
    partials[kept:] = [x]
