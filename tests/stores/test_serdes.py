"""Values come back equal and of their type, or are refused where they are made."""

from __future__ import annotations

import collections
import enum
import pickle
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, NewType, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raystreams.stores.builders import Stores
from raystreams.stores.errors import SerdeError
from raystreams.stores.plain import decode_plain, encode_plain
from raystreams.stores.serdes import Serde, describe_type, difference, key_serde, serde, value_serde
from raystreams.stores.values import Windowed

from tests.strategies import plain_values


@dataclass
class Line:
    sku: str
    count: int = 1


class Color(enum.Enum):
    RED = "red"


class Spot(NamedTuple):
    x: int
    y: int = 0


class Row(TypedDict):
    id: int
    name: str


class Model(pydantic.BaseModel):
    at: datetime
    lines: list[Decimal] = []


class Money(msgspec.Struct):
    cents: int
    currency: str = "EUR"


@dataclass
class Order:
    id: int
    lines: list[Line] = field(default_factory=list)
    color: Color | None = None
    model: Model | None = None
    prices: dict[str, Decimal] = field(default_factory=dict)
    spot: Spot | None = None
    seen: set[date] = field(default_factory=set)


UserId = NewType("UserId", int)
NOON = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
ORDER = Order(
    7, [Line("a"), Line("b", 2)], Color.RED, Model(at=NOON, lines=[Decimal("1.50")]), {"x": Decimal("2.10")}, Spot(1),
    {date(2024, 1, 1)},
)  # fmt: skip


@given(plain_values)
def test_plain_data_comes_back_equal_and_of_its_type(value: Any) -> None:
    back = decode_plain(encode_plain(value))

    assert back == value
    assert type(back) is type(value)


def reversed_set(value: set[str]) -> set[str]:
    result = set()
    for element in sorted(value, reverse=True):
        result.add(element)
    return result


@given(st.sets(st.text(max_size=3)))
def test_equal_sets_have_equal_bytes(value: set[str]) -> None:
    assert encode_plain(value) == encode_plain(reversed_set(value))


@pytest.mark.parametrize(
    "value",
    [
        Line("a"), Color.RED, Spot(1), Money(1), Model(at=NOON), collections.Counter("a"), object(), [{"deep": Line("a")}],
        {1: (Spot(1),)},
    ],
)
def test_an_object_without_a_type_is_refused_and_never_comes_back_as_a_dict(value: Any) -> None:
    with pytest.raises(SerdeError, match="pass value="):
        value_serde().encode(value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, 2**80), (int, -5), (str, "é"), (bytes, b"\0"), (bool, True), (Decimal, Decimal("1.50")),
        (datetime, datetime(2024, 1, 1)),
        (timedelta, timedelta(days=-1)), (UUID, UUID(int=1)), (list, [1, (2,)]), (dict, {1: {2}}), (tuple, (1, [2])),
        (Line, Line("a", 3)), (Order, ORDER), (Money, Money(5)), (Model, Model(at=NOON)), (Row, {"id": 1, "name": "x"}),
        (Spot, Spot(3, 4)),
        (Color, Color.RED), (list[Line], [Line("a")]), (dict[str, Line], {"x": Line("a")}), (tuple[int, str], (1, "a")),
        (list[int], [1, 2]), (set[str], {"a"}), (dict[tuple[int, int], str], {(1, 2): "x"}),
        (dict[str, Any], {"a": (1, Decimal(2))}),
        (list[Any], [(1,), {2}]), (Line | None, Line("a")), (Annotated[int, "cents"], 5), (UserId, 5),
        (Windowed[str], Windowed("a", 1, 2)),
        (list[Windowed[int]], [Windowed(1, 2, 3)]), (serde(Line | Money), Money(1)), (serde(Line | Money), Line("a")),
        (int | str, "a"),
        (serde(int | list[Line] | None), [Line("a")]),
    ],
)  # fmt: skip
def test_a_declared_value_comes_back_as_its_type(hint: Any, value: Any) -> None:
    codec = value_serde(hint)
    back = codec.decode(codec.encode(value))

    assert back == value
    assert type(back) is type(value)
    assert difference(codec.description, codec.description) is None


@dataclass
class Event:
    name: str
    payload: dict[str, Any]
    lines: list[Line] = field(default_factory=list)
    inner: Event | None = None
    either: Line | Money | None = None
    pairs: tuple[Line, int] | None = None
    colors: dict[Color, Line] = field(default_factory=dict)
    members: set[Color] = field(default_factory=set)
    model: Model | None = None


class AnyRow(TypedDict, total=False):
    id: int
    extra: Any
    line: Line


PAYLOAD = {"price": Decimal("1.50"), "at": datetime(2024, 1, 1), "pair": (1, 2), "tags": {"a"}, "id": UUID(int=3)}
EVENT = Event(
    "x", PAYLOAD, [Line("a")], Event("inner", {"deep": (1,)}), Money(5), (Line("b"), 2), {Color.RED: Line("c")}, {Color.RED},
    Model(at=NOON),
)  # fmt: skip


@pytest.mark.parametrize(
    ("hint", "value"),
    [(Event, EVENT), (list[Event], [EVENT]), (AnyRow, {"id": 1, "extra": (1,), "line": Line("a")}), (AnyRow, {"extra": {1}})],
)
def test_a_part_of_any_type_comes_back_as_it_was(hint: Any, value: Any) -> None:
    codec = value_serde(hint)

    assert codec.decode(codec.encode(value)) == value


def test_an_object_in_a_part_of_any_type_is_refused() -> None:
    with pytest.raises(SerdeError, match="a value of type Line can't be encoded"):
        value_serde(Event).encode(Event("x", {"line": Line("a")}))
    with pytest.raises(TypeError, match="and Event is declared"):
        value_serde(Event).encode(Line("a"))


line_of: Any = Line
spot_of: Any = Spot


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Line, line_of(7)), (Line, line_of("a", 1.5)), (list[int], ["a"]), (dict[str, int], {1: 1}), (Row, {"id": 1}),
        (Spot, spot_of("a")),
    ],
)  # fmt: skip
def test_a_value_with_a_part_that_is_not_as_declared_is_a_type_error(hint: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="is not as declared"):
        value_serde(hint).encode(value)


def test_a_float_may_be_given_as_an_int_and_is_a_float() -> None:
    codec = value_serde(float)

    assert type(codec.decode(codec.encode(3))) is float


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "7"), (int, True), (int, 1.5), (str, 7), (bool, 1), (float, "1"), (bytes, "a"), (dict, [1]), (list, (1,)),
        (tuple, [1]),
        (tuple, Spot(1)), (Line, {"sku": "a"}), (Line, Money(1)), (Row, [1]), (Spot, (1, 2)), (Model, {"at": NOON}),
        (Color, "red"),
        (list[Line], Line("a")), (dict[str, Any], [1]), (serde(Line | Money), Spot(1)), (Windowed[str], "a"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_than_declared_is_a_type_error(hint: Any, value: Any) -> None:
    with pytest.raises(TypeError, match=r"is a \w+, and .* is declared"):
        value_serde(hint).encode(value)


@pytest.mark.parametrize("hint", [complex, pytest.Config, "int", 5, type(None)])
def test_some_types_can_not_be_values(hint: Any) -> None:
    with pytest.raises(SerdeError):
        value_serde(hint)


def test_two_types_of_one_name_make_no_union() -> None:
    def local() -> type:
        @dataclass
        class Line:
            other: int

        return Line

    with pytest.raises(SerdeError, match="have one name"):
        value_serde(Line | local())


def test_damaged_bytes_are_a_serde_error() -> None:
    for hint in (None, int, Line, list[int], serde(Line | Money)):
        with pytest.raises(SerdeError):
            value_serde(hint).decode(b"\xc1\x00")


def test_serdes_and_builders_travel_by_pickle() -> None:
    union = value_serde(serde(Line | Money))
    for codec in (value_serde(Line), union, key_serde(tuple[str, int]), key_serde(), value_serde(Text())):
        again = pickle.loads(pickle.dumps(codec))
        assert (again.description, type(again)) == (codec.description, type(codec))
    builder = Stores.window("w", retention=10, size=1, key=str, value=serde(Line | Money))
    assert pickle.loads(pickle.dumps(builder)) == builder


class Text(Serde[str]):
    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()


def test_a_serde_is_taken_as_it_is() -> None:
    codec = value_serde(Text())

    assert codec.encode("a") == b"a"
    assert codec.description == "Serde Text"
    assert value_serde(codec).encode("a") == b"a"


# ---- what may change between two runs -------------------------------------------------------------------------------


def fields(**types: Any) -> Any:
    """A dataclass whose fields have a default if they are given as (type, default)."""
    namespace = {name: kind[1] for name, kind in types.items() if isinstance(kind, tuple)}
    annotations = {name: kind[0] if isinstance(kind, tuple) else kind for name, kind in types.items()}
    return dataclass(type("Row", (), {"__annotations__": annotations, **namespace}))


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (fields(a=int), fields(a=int, b=(str, "x"))),
        (fields(a=int, b=str), fields(a=int)),
        (fields(a=int), fields(a=float)),
        (fields(a=int), fields(a=(int | None, None))),
        (list[fields(a=int, b=str)], list[fields(a=int)]),  # type: ignore[misc]  # made at run time
        (int, int | None),
    ],
)
def test_values_may_gain_fields_with_defaults_and_lose_fields(stored: Any, wanted: Any) -> None:
    assert difference(describe_type(stored), describe_type(wanted)) is None


def test_values_that_gained_and_lost_fields_can_be_read() -> None:
    old, new = fields(a=int, b=str), fields(a=int, c=(str, "new"))

    assert value_serde(new).decode(value_serde(old).encode(old(1, "x"))) == new(1, "new")


@pytest.mark.parametrize(
    ("stored", "wanted", "text"),
    [
        (int, str, "was int, is str"),
        (None, int, "was plain data, is int"),
        (fields(a=int), fields(a=str), "field a: was int, is str"),
        (fields(a=int), fields(a=int, b=int), "field b is new and has no default"),
        (fields(a=fields(b=int)), fields(a=fields(b=str)), "field a.b: was int, is str"),
        (list[int], dict[str, int], "was list[int], is dict[str, int]"),
        (Line, int, "was Line, is int"),
    ],
)
def test_other_changes_are_told_by_name(stored: Any, wanted: Any, text: str) -> None:
    assert difference(describe_type(stored), describe_type(wanted)) == text
