"""Encoded keys sort as keys do, come back equal, and none is the beginning of another."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from raystreams.stores.errors import SerdeError
from raystreams.stores.keys import after, decode_key, encode_key, escape, partition_of, unescape
from raystreams.stores.serdes import Serde, key_serde, serde
from raystreams.stores.values import Windowed

from tests.strategies import any_key, any_scalar_key, hard_bytes, hard_text, scalar_keys

ORDER_OF_TYPES = [
    b"\xff", "\uffff", ("\uffff", 2**70), -(2**80), 2**80, -float("inf"), float("inf"), False, True,
    datetime.max.replace(tzinfo=timezone.utc), date.max, UUID(int=2**128 - 1), Decimal("Infinity"),
]  # fmt: skip


@dataclass(frozen=True, order=True)
class Place:
    """A key with an optional part."""

    country: str
    house: int | None = None


class Pair(NamedTuple):
    left: int
    right: str


class Point(msgspec.Struct, frozen=True):
    x: int
    y: float


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Letters(Serde[str]):
    """A user's own serde."""

    def encode(self, value: str) -> bytes:
        return value.upper().encode()

    def decode(self, data: bytes) -> str:
        return data.decode().lower()


same_type = st.sampled_from(sorted(scalar_keys)).flatmap(lambda name: st.tuples(scalar_keys[name], scalar_keys[name]))


@given(same_type)
def test_bytes_sort_as_keys_of_one_type_do(two: tuple[Any, Any]) -> None:
    one, other = two

    assert (encode_key(one) < encode_key(other)) == (one < other)
    assert (encode_key(one) == encode_key(other)) == (one == other)


@given(st.lists(hard_text, max_size=3).map(tuple), st.lists(hard_text, max_size=3).map(tuple))
def test_tuples_sort_element_by_element(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (encode_key(one) < encode_key(other)) == (one < other)


@given(any_key)
def test_a_key_comes_back_equal_and_of_its_type(key: Any) -> None:
    back = decode_key(encode_key(key))

    assert back == key
    assert type(back) is type(key)


@given(any_key, any_key)
def test_no_key_is_the_beginning_of_another(one: Any, other: Any) -> None:
    assume(repr(one) != repr(other))
    first, second = encode_key(one), encode_key(other)

    assert first == second or not (first.startswith(second) or second.startswith(first))
    assert first[0] > 1  # 00 and 01 are for what stores note


@given(any_key, any_key, st.binary(min_size=9, max_size=9), st.binary(min_size=9, max_size=9))
def test_what_follows_a_key_never_changes_the_order_of_keys(one: Any, other: Any, rest: bytes, more: bytes) -> None:
    first, second = encode_key(one), encode_key(other)
    assume(first != second)

    assert (first + rest < second + more) == (first < second)


def test_types_have_an_order() -> None:
    encoded = [encode_key(key) for key in ORDER_OF_TYPES]

    assert encoded == sorted(encoded)
    assert encode_key((None, 1)) < encode_key((b"", 1)) < encode_key(("", 1))


def test_equal_keys_of_one_type_are_one_key_and_others_are_not() -> None:
    plus_two = timezone(timedelta(hours=2))
    noon = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)

    assert encode_key(0.0) == encode_key(-0.0)
    assert encode_key(Decimal("1.0")) == encode_key(Decimal("1.000"))
    assert encode_key(Decimal("-0")) == encode_key(Decimal(0))
    assert encode_key(noon) == encode_key(noon.astimezone(plus_two))
    assert len({encode_key(key) for key in (1, 1.0, True, "1", b"1", (1,), Decimal(1))}) == 7


@given(hard_bytes, hard_bytes)
def test_escaped_bytes_sort_and_stay_apart(one: bytes, other: bytes) -> None:
    assert (escape(one) < escape(other)) == (one < other)
    assert one == other or not escape(one).startswith(escape(other))
    assert unescape(b"x" + escape(one) + b"y", 1) == (one, 1 + len(escape(one)))


@given(st.binary(max_size=3), st.binary(max_size=5))
def test_after_is_above_all_that_begins_with_a_prefix(prefix: bytes, rest: bytes) -> None:
    stop = after(prefix)

    assert stop is None or prefix + rest < stop
    if stop is not None and not rest.startswith(prefix):
        assert not prefix < rest < stop


@pytest.mark.parametrize(
    ("hint", "key"),
    [
        (str, "a\0é"), (int, -(2**70)), (float, 1.5), (bool, True), (bytes, b"\0"), (Decimal, Decimal("-1.5")),
        (date, date(2024, 1, 1)), (UUID, UUID(int=5)), (tuple[str, int], ("a", 1)), (tuple[int, ...], (1, 2, 3)),
        (tuple[str, int | None], ("a", None)), (Place, Place("de")), (Place, Place("de", 7)), (Pair, Pair(1, "x")),
        (Point, Point(1, 2.5)), (Color, Color.RED), (Windowed[str], Windowed("k", 1, 2)),
        (Windowed[Place], Windowed(Place("x"), 0, 9)),
        (tuple[Place, Color], (Place("x", 1), Color.GREEN)), (int | str, "a"), (serde(int | str), 7), (Letters(), "abc"),
        (None, ("plain", 1)), (Any, 5),
    ],
)  # fmt: skip
def test_a_declared_key_comes_back_as_its_type(hint: Any, key: Any) -> None:
    codec = key_serde(hint)
    back = codec.decode(codec.encode(key))

    assert back == key
    assert type(back) is type(key)
    assert isinstance(codec.description, str)


@pytest.mark.parametrize(
    ("hint", "key"),
    [
        (int, "7"), (int, True), (int, 7.0), (str, 7), (bytes, "x"), (float, "1"), (bool, 1), (Place, Pair(1, "x")),
        (Place, ("de", 1)),
        (tuple[str, int], ("a",)), (tuple[str, int], ("a", "b")), (tuple, [1]), (Color, "red"), (Windowed[str], "k"),
        (Windowed[int], Windowed("k", 0, 1)), (int | str, 1.5), (datetime, date(2024, 1, 1)),
    ],
)  # fmt: skip
def test_a_key_of_another_type_than_declared_is_a_type_error(hint: Any, key: Any) -> None:
    with pytest.raises(TypeError, match=r"is a \w+, and .* is declared"):
        key_serde(hint).encode(key)


@pytest.mark.parametrize("hint", [None, str, int, Place, tuple[int, int], Windowed[str], Letters()])
def test_a_key_is_never_none(hint: Any) -> None:
    with pytest.raises(ValueError, match="must not be None"):
        key_serde(hint).encode(None)


@pytest.mark.parametrize("key", [Place("x"), Pair(1, "x"), Color.RED, object(), [1], {1}, Decimal("NaN")])
def test_a_key_that_is_not_plain_needs_a_type(key: Any) -> None:
    with pytest.raises(SerdeError):
        key_serde().encode(key)


@pytest.mark.parametrize("hint", [list[int], dict, set[str], Place | Pair, object()])
def test_some_types_can_not_be_keys(hint: Any) -> None:
    with pytest.raises(SerdeError):
        key_serde(hint)


def test_a_name_for_a_str_or_an_int_is_that_str_or_int() -> None:
    class Kind(str, enum.Enum):
        SMALL = "small"

    class Level(enum.IntEnum):
        HIGH = 3

    assert key_serde(str).encode(Kind.SMALL) == key_serde(str).encode("small") == encode_key(Kind.SMALL)
    assert key_serde(int).encode(Level.HIGH) == key_serde(int).encode(3) == encode_key(Level.HIGH)
    assert key_serde(float).encode(3) == key_serde(float).encode(3.0)


@given(any_scalar_key)
def test_plain_and_declared_keys_have_the_same_bytes(key: Any) -> None:
    assert key_serde(type(key)).encode(key) == key_serde().encode(key)


def test_the_order_of_a_serde_is_that_of_its_bytes() -> None:
    codec = key_serde(Letters())

    assert codec.encode("a") < codec.encode("ab") < codec.encode("b")
    assert codec.encode("ab").startswith(codec.prefix("a"))


def test_a_windowed_key_lives_in_the_partition_of_its_key() -> None:
    window = Windowed("k", 5, 10)

    assert key_serde(Windowed[str]).partition_bytes(window) == key_serde(str).encode("k")
    assert key_serde().partition_bytes(window) == key_serde().partition_bytes("k")


def test_partitions_are_part_of_the_format_on_disk() -> None:
    assert [partition_of(encode_key(key), 8) for key in ("a", "b", 1, 2.5, ("x", 1), True)] == PARTITIONS
    assert encode_key("a\0b") == b"\x04a\x00\xffb\x00\x01"
    assert encode_key(-1) == b"\x07\x7f\xff\xff\xff\xff\xff\xff\xff"
    assert encode_key((None, 1.0)) == b"\x05\x02\x09\xbf\xf0\x00\x00\x00\x00\x00\x00\x01"
    assert encode_key(Decimal("-1.5")) == b"\x10\x02\x7f\xff\xff\xff\xff\xff\xff\xff\xce\xca\xff"


PARTITIONS = [0, 4, 4, 0, 4, 7]


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x04abc", b"\x07\x00", b"\x01", b"\x07" + b"\x80" * 9, b"\xff"])
def test_other_bytes_are_no_key(data: bytes) -> None:
    with pytest.raises(SerdeError):
        decode_key(data)
