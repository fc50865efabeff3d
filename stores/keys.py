"""Keys as bytes that sort as the keys do: one tag a type, then the value.

    None < bytes < str < tuple < int < float < bool < datetime < date < UUID < Decimal < time < timedelta < Windowed

    02               None (inside tuples only)
    03 esc           bytes            05 element ... 01   tuple         0C u64   datetime, microseconds, with zone
    04 esc           str, UTF-8       06/08 length bytes  int < / > i64  0D u64   datetime without zone
    07 u64           int              09 u64              float          0E u32   date, proleptic ordinal
    0A / 0B          False / True     0F 16 bytes         UUID           10 ...   Decimal, see `_decimal`
    11 u64           time             12 u32 u64          timedelta      13 key u64 u64   Windowed: key, start, end

`esc` is the bytes with each 00 as 00 FF, then 00 01; that keeps their order, and makes a shorter one the smaller.
A u64 of a signed number has its sign bit turned over. The idea is FoundationDB's tuple layer; but the end of a text has two
bytes, as anything may follow a key here, also FF.

What stores rely on: (1) bytes compare as keys of one type do in Python; (2) no key's bytes are the beginning of another's,
so `key + suffix` sorts by key, then by suffix, and the rows of one key lie together; (3) no key begins with 00 or 01;
(4) keys that are equal in Python and of one type have the same bytes (0.0 and -0.0, 1.0 and 1.00 as decimals, one
instant in two zones). Keys of two types are never equal: 1, 1.0 and True are three keys, as they are three partitions.

Encoded keys, and `partition_of` them, are part of the format on disk.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import xxhash
from raystreams.stores.errors import SerdeError, type_mismatch
from raystreams.stores.values import Windowed

NONE, BYTES, STR, TUPLE = b"\x02", b"\x03", b"\x04", b"\x05"
FALSE, TRUE = b"\x0a", b"\x0b"
UUID_TAG, DECIMAL = b"\x0f", b"\x10"
WINDOWED = b"\x13"
_BIG_NEGATIVE, _INT, _BIG_POSITIVE, _FLOAT = 0x06, 0x07, 0x08, 0x09
_DATETIME, _NAIVE_DATETIME, _DATE, _TIME, _TIMEDELTA = 0x0C, 0x0D, 0x0E, 0x11, 0x12

TERMINATOR = b"\x00\x01"
TUPLE_END = b"\x01"

_SIGN = 1 << 63
_ALL_ONES = (1 << 64) - 1
_tagged_u64 = struct.Struct(">BQ").pack
_tagged_u32 = struct.Struct(">BI").pack
_u64 = struct.Struct(">Q").unpack_from
_two_u64 = struct.Struct(">QQ")
_double = struct.Struct(">d")
_COMPLEMENT = bytes(255 - i for i in range(256))
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


# ---- bytes inside keys ----------------------------------------------------------------------------------------------


def escape(raw: bytes) -> bytes:
    """Return bytes that sort as `raw` does, and of which none is the beginning of another."""
    return (raw.replace(b"\0", b"\0\xff") if 0 in raw else raw) + TERMINATOR


def unescape(data: bytes, position: int = 0) -> tuple[bytes, int]:
    """Return what was escaped at a position, and the position after it."""
    end = data.index(TERMINATOR, position)
    raw = data[position:end]
    return (raw.replace(b"\0\xff", b"\0") if 0 in raw else raw), end + 2


def after(prefix: bytes) -> bytes | None:
    """Return the smallest bytes above everything that begins with `prefix`; None if there are none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None


# ---- encoding -------------------------------------------------------------------------------------------------------


def encode_str(key: Any) -> bytes:
    """Encode a str; a TypeError for anything else. Lone surrogates are allowed: code points keep their order with them too."""
    if key.__class__ is not str:
        key = str.__str__(_declared(str, key))
    try:
        raw = key.encode()
    except UnicodeEncodeError:
        raw = key.encode("utf-8", "surrogatepass")
    return b"\x04%b\x00\x01" % (raw.replace(b"\0", b"\0\xff") if 0 in raw else raw)


def _declared(cls: type, key: Any) -> Any:
    """Return a key that is an instance of what is declared, such as a StrEnum; a bool is no int."""
    if not isinstance(key, cls) or isinstance(key, bool):
        raise key_mismatch(cls.__name__, key)
    return key


def key_mismatch(expected: str, key: Any) -> Exception:
    """Return the error for a key that is None, or of another type than declared."""
    return ValueError("a key must not be None") if key is None else type_mismatch(expected, key, "key")


def encode_bytes(key: bytes) -> bytes:
    """Encode bytes."""
    return BYTES + escape(bytes(key))


def encode_int(key: Any) -> bytes:
    """Encode an int of any size, in eight bytes within 64 bits, else with its length in front; a TypeError for others."""
    if key.__class__ is not int:
        key = int(_declared(int, key))
    try:
        return _tagged_u64(_INT, key + _SIGN)
    except struct.error:
        return _big_int(key)


def _big_int(key: int) -> bytes:
    negative = key < 0
    magnitude = -1 - key if negative else key
    length = (magnitude.bit_length() + 7) // 8
    body = length.to_bytes(4, "big") + magnitude.to_bytes(length, "big")
    return bytes((_BIG_NEGATIVE,)) + body.translate(_COMPLEMENT) if negative else bytes((_BIG_POSITIVE,)) + body


def encode_float(key: float) -> bytes:
    """Encode a float; -0.0 is 0.0, and any NaN is one NaN above infinity."""
    if key != key:
        return _tagged_u64(_FLOAT, _ALL_ONES)
    (bits,) = _u64(_double.pack(key + 0.0))  # -0.0 + 0.0 is 0.0
    return _tagged_u64(_FLOAT, _ALL_ONES ^ bits if bits & _SIGN else bits | _SIGN)


def _bool(key: bool) -> bytes:
    return TRUE if key else FALSE


def _datetime(key: datetime) -> bytes:
    if key.tzinfo is None:
        return _tagged_u64(_NAIVE_DATETIME, (key - _NAIVE_EPOCH) // _MICROSECOND + _SIGN)
    return _tagged_u64(_DATETIME, (key - _EPOCH) // _MICROSECOND + _SIGN)


def _date(key: date) -> bytes:
    return _tagged_u32(_DATE, key.toordinal())


def _time(key: time) -> bytes:
    if key.tzinfo is not None:
        raise SerdeError(f"a time of day with a zone can't be a key: {key!r}. Use a datetime, or drop the zone")
    seconds = (key.hour * 60 + key.minute) * 60 + key.second
    return _tagged_u64(_TIME, seconds * 1_000_000 + key.microsecond)


def _timedelta(key: timedelta) -> bytes:
    days, rest = key.days + (1 << 31), key.seconds * 1_000_000 + key.microseconds
    return _tagged_u32(_TIMEDELTA, days) + rest.to_bytes(8, "big")


def _uuid(key: UUID) -> bytes:
    return UUID_TAG + key.bytes


def _decimal(key: Decimal) -> bytes:
    """Sign class (1 -inf, 2 negative, 3 zero, 4 positive, 5 inf), exponent of the first digit, digits, 00.

    Of a negative number all but the class is turned over. Zeros at the end are cut, so 1.0 and 1.00 are one key.
    """
    sign, digits, exponent = key.as_tuple()
    if not isinstance(exponent, int):
        if key.is_nan():
            raise SerdeError("a Decimal NaN can't be a key: it has no place in the order")
        return DECIMAL + (b"\x01" if sign else b"\x05")
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return DECIMAL + b"\x03"
    exponent_of_first = exponent + len(text) - 1
    body = (exponent_of_first + _SIGN).to_bytes(8, "big") + text.rstrip("0").encode() + b"\0"
    return DECIMAL + (b"\x02" + body.translate(_COMPLEMENT) if sign else b"\x04" + body)


def _tuple(key: tuple[Any, ...]) -> bytes:
    return TUPLE + b"".join([NONE if element is None else encode_key(element) for element in key]) + TUPLE_END


def windowed_bytes(encoded: bytes, start: int, end: int) -> bytes:
    """Encode a Windowed whose key is already encoded."""
    return WINDOWED + encoded + _two_u64.pack(start + _SIGN, end + _SIGN)


def _windowed(key: Windowed[Any]) -> bytes:
    return windowed_bytes(encode_key(key.key), key.start, key.end)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    str: encode_str, bytes: encode_bytes, tuple: _tuple, int: encode_int, float: encode_float, bool: _bool,
    datetime: _datetime, date: _date, UUID: _uuid, Decimal: _decimal, time: _time, timedelta: _timedelta,
    Windowed: _windowed,
}  # fmt: skip


def encode_key(key: Any) -> bytes:
    """Encode a key of any of the types above; a SerdeError for others, a ValueError for None.

    >>> encode_key("a") < encode_key("ab") < encode_key(("a", -1)) < encode_key(("a", 3)) < encode_key(-7) < encode_key(2**80)
    True
    """
    encoder = _ENCODERS.get(key.__class__)
    return encoder(key) if encoder is not None else _encode_other(key)


def _encode_other(key: Any) -> bytes:
    if key is None:
        raise ValueError("a key must not be None")
    if isinstance(key, str):  # a StrEnum is what it derives from, as are an IntEnum and a numpy float
        return encode_str(key)
    if isinstance(key, int):
        return encode_int(key)
    if isinstance(key, float):
        return encode_float(float(key))
    if isinstance(key, bytes):
        return encode_bytes(key)
    if isinstance(key, tuple) and not hasattr(key, "_fields"):
        return _tuple(key)
    name = type(key).__qualname__
    raise SerdeError(
        f"a key of type {name} can't be encoded without its type: pass key={name} where this key is made or declared "
        f"(a dataclass, Struct or NamedTuple), or use str, bytes, int, float, bool, tuple, datetime, date, UUID, Decimal"
    )


# ---- decoding -------------------------------------------------------------------------------------------------------


def decode_key(data: bytes) -> Any:
    """Return the key of encoded bytes; a SerdeError if they are none."""
    try:
        key, end = decode_at(data, 0)
    except (KeyError, IndexError, ValueError, struct.error, OverflowError) as error:
        raise SerdeError(f"these bytes are no encoded key: {data!r} ({error})") from error
    if end != len(data):
        raise SerdeError(f"these bytes are an encoded key and {len(data) - end} bytes more: {data!r}")
    return key


def decode_at(data: bytes, position: int) -> tuple[Any, int]:
    """Return the key that is encoded at a position, and the position after it."""
    return _DECODERS[data[position]](data, position + 1)


def skip_key(data: bytes, position: int) -> int:
    """Return the position after the key that is encoded at a position."""
    return decode_at(data, position)[1]


def decode_str(data: bytes) -> str:
    """Decode the whole of an encoded str."""
    raw = data[1:-2]
    if 0 in raw:
        raw = raw.replace(b"\0\xff", b"\0")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogatepass")


def _at_str(data: bytes, position: int) -> tuple[str, int]:
    raw, end = unescape(data, position)
    return raw.decode("utf-8", "surrogatepass"), end


def _at_tuple(data: bytes, position: int) -> tuple[tuple[Any, ...], int]:
    elements = []
    while data[position] != TUPLE_END[0]:
        element, position = decode_at(data, position)
        elements.append(element)
    return tuple(elements), position + 1


def _signed(data: bytes, position: int) -> int:
    value: int = _u64(data, position)[0]
    return value - _SIGN


def _at_int(data: bytes, position: int) -> tuple[int, int]:
    return _signed(data, position), position + 8


def _at_big(negative: bool) -> Callable[[bytes, int], tuple[int, int]]:
    def decode(data: bytes, position: int) -> tuple[int, int]:
        length = int.from_bytes(_turned(data[position : position + 4], negative), "big")
        end = position + 4 + length
        magnitude = int.from_bytes(_turned(data[position + 4 : end], negative), "big")
        return (-1 - magnitude if negative else magnitude), end

    return decode


def _turned(raw: bytes, negative: bool) -> bytes:
    return raw.translate(_COMPLEMENT) if negative else raw


def _at_float(data: bytes, position: int) -> tuple[float, int]:
    (bits,) = _u64(data, position)
    bits = bits ^ _SIGN if bits & _SIGN else _ALL_ONES ^ bits
    value: float = _double.unpack(bits.to_bytes(8, "big"))[0]
    return value, position + 8


def _at_decimal(data: bytes, position: int) -> tuple[Decimal, int]:
    kind = data[position]
    if kind in (1, 3, 5):
        return Decimal({1: "-Infinity", 3: "0", 5: "Infinity"}[kind]), position + 1
    negative = kind == 2
    end = data.index(b"\xff" if negative else b"\0", position + 9)
    exponent = int.from_bytes(_turned(data[position + 1 : position + 9], negative), "big") - _SIGN
    digits = _turned(data[position + 9 : end], negative)
    return Decimal((int(negative), [digit - 48 for digit in digits], exponent - len(digits) + 1)), end + 1


def _at_time(data: bytes, position: int) -> tuple[time, int]:
    seconds, microsecond = divmod(_u64(data, position)[0], 1_000_000)
    minutes, second = divmod(seconds, 60)
    return time(minutes // 60, minutes % 60, second, microsecond), position + 8


def _at_timedelta(data: bytes, position: int) -> tuple[timedelta, int]:
    days = int.from_bytes(data[position : position + 4], "big") - (1 << 31)
    return timedelta(days, microseconds=_u64(data, position + 4)[0]), position + 12


def _at_windowed(data: bytes, position: int) -> tuple[Windowed[Any], int]:
    key, position = decode_at(data, position)
    start, end = _two_u64.unpack_from(data, position)
    return Windowed(key, start - _SIGN, end - _SIGN), position + 16


_DECODERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    NONE[0]: lambda data, position: (None, position),
    BYTES[0]: unescape,
    STR[0]: _at_str,
    TUPLE[0]: _at_tuple,
    _BIG_NEGATIVE: _at_big(True),
    _INT: _at_int,
    _BIG_POSITIVE: _at_big(False),
    _FLOAT: _at_float,
    FALSE[0]: lambda data, position: (False, position),
    TRUE[0]: lambda data, position: (True, position),
    _DATETIME: lambda data, at: (_EPOCH + timedelta(microseconds=_signed(data, at)), at + 8),
    _NAIVE_DATETIME: lambda data, at: (_NAIVE_EPOCH + timedelta(microseconds=_signed(data, at)), at + 8),
    _DATE: lambda data, at: (date.fromordinal(int.from_bytes(data[at : at + 4], "big")), at + 4),
    UUID_TAG[0]: lambda data, at: (UUID(bytes=data[at : at + 16]), at + 16),
    DECIMAL[0]: _at_decimal,
    _TIME: _at_time,
    _TIMEDELTA: _at_timedelta,
    WINDOWED[0]: _at_windowed,
}


# ---- partitions -----------------------------------------------------------------------------------------------------


def partition_of(key_bytes: bytes, partitions: int) -> int:
    """Return the partition of an encoded key: the same in every process, version and machine."""
    partition: int = xxhash.xxh3_64_intdigest(key_bytes) % partitions
    return partition
