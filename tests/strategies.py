"""Data for properties: keys that are hard to keep apart, values, times out of order, late records and deletions."""

from __future__ import annotations

from datetime import timezone
from typing import Any

from hypothesis import strategies as st

hard_text = st.text(alphabet=st.sampled_from(["\x00", "\x01", "a", "b", "é", "\uffff", "\U0001f600"]), max_size=4)
"""Texts that are beginnings of each other, with the bytes that separators are made of."""

hard_bytes = st.binary(max_size=4) | st.lists(st.sampled_from([b"\x00", b"\x01", b"\xff", b"a"]), max_size=4).map(b"".join)

big_ints = st.integers() | st.integers(-(2**70), 2**70) | st.sampled_from([-(2**63) - 1, -(2**63), 2**63 - 1, 2**63])
floats = st.floats(allow_nan=False)
decimals = st.decimals(allow_nan=False) | st.sampled_from([0, 1, 10]).map(lambda n: __import__("decimal").Decimal(n))
moments = st.datetimes(timezones=st.just(timezone.utc))

scalar_keys: dict[str, st.SearchStrategy[Any]] = {
    "bytes": hard_bytes,
    "str": st.text(max_size=6) | hard_text,
    "int": big_ints,
    "float": floats,
    "bool": st.booleans(),
    "datetime": moments,
    "date": st.dates(),
    "uuid": st.uuids(),
    "decimal": decimals,
    "time": st.times(),
    "timedelta": st.timedeltas(),
}
"""Keys of one type each; within a type, Python can compare them."""

any_scalar_key = st.one_of(*scalar_keys.values())
any_key = st.recursive(any_scalar_key, lambda inner: st.lists(inner | st.none(), max_size=3).map(tuple), max_leaves=6)

few_keys = st.sampled_from(["", "a", "a\x00", "aa", "b"])
"""So few that they meet, and such that rows of one could be taken for another's."""

plain_values = st.recursive(
    st.none() | st.booleans() | big_ints | floats | st.text(max_size=5) | st.binary(max_size=5) | moments | st.dates()
    | st.uuids() | decimals | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=3)
    | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(any_scalar_key, inner, max_size=3)
    | st.frozensets(any_scalar_key, max_size=3),
    max_leaves=8,
)  # fmt: skip
