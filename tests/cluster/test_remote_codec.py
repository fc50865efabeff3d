"""Names, types and arguments of reads: what is wrong is told before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.remote_codec import Codec
from raystreams.cluster.task_reads import Description, ReadRequest
from raystreams.stores.serdes import describe_type, serde, value_serde

from raystreams import Materialized
from tests.cluster.remote_jobs import Order, Tasks, listed

WHEN = datetime.fromtimestamp(1.2, timezone.utc)


def test_a_wrong_name_suggests_the_right_one(tasks: Tasks) -> None:
    with pytest.raises(ValueError, match="'windos'; did you mean 'windows'"):
        tasks.remote("windos")
    with pytest.raises(ValueError, match="name it"):
        tasks.remote(Materialized.key_value())
    with pytest.raises(AttributeError, match=r"key value.*'fetch'"):
        tasks.remote("kv").fetch("key3")
    with pytest.raises(AttributeError, match="'put'"):
        tasks.remote("kv").put("key3", 1)
    with pytest.raises(AttributeError, match="'get_many'"):
        tasks.remote("windows").get_many(["key3"])
    with pytest.raises(ValueError, match="can't be asked for"):
        tasks.reads[0].read(ReadRequest(store="kv", method="put"))


def test_a_store_lists_what_it_can_be_asked_for(tasks: Tasks) -> None:
    assert {"get", "aget", "range"} <= set(dir(tasks.remote("kv")))
    assert not {"get", "aget", "put"} & set(dir(tasks.remote("windows")))
    assert repr(tasks.remote("kv")) == "RemoteStore('kv' of the job 'job')"


@pytest.mark.parametrize(
    ("handle", "text"),
    [
        (Materialized.key_value("table", key=int, value=Order), "keys of type str, and the handle says int"),
        (Materialized.key_value("table", key=str, value=int), "values of type Order, and the handle says int"),
        (Materialized.versioned("table", history_retention=1), "is a key_value store.* a versioned store"),
        (Materialized.window("kv", key=str, value=int), "is a key_value store.* a window store"),
        (Materialized.key_value("versions", key=str, value=int), "is a versioned store.* a key_value store"),
    ],
)
def test_a_handle_of_other_types_is_a_type_error_that_says_both(tasks: Tasks, handle: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        tasks.remote(handle)


def test_wrong_arguments_are_errors_before_anything_is_sent(tasks: Tasks) -> None:
    kv, versions, windows = (tasks.remote(name) for name in ("kv", "versions", "windows"))
    tasks.sent.clear()
    with pytest.raises(TypeError, match="7 is a int, and str is declared"):
        kv.get(7)
    with pytest.raises(ValueError, match="must not be None"):
        kv.get(None)
    with pytest.raises(TypeError, match="missing a required argument: 'key'"):
        kv.get()
    with pytest.raises(TypeError):
        versions.get("key3", 1150)
    with pytest.raises(ValueError, match="'key3' is asked for from 5 to 4"):
        versions.history("key3", 5, 4)
    with pytest.raises(ValueError, match="time zone"):
        windows.fetch("key3", datetime(2026, 1, 1))

    assert tasks.sent == []


def test_a_prefix_of_none_and_a_range_that_is_upside_down(tasks: Tasks, caplog: pytest.LogCaptureFixture) -> None:
    kv = tasks.remote("kv")
    with pytest.raises(ValueError, match="prefix"):
        kv.prefix_scan(None)

    assert listed(kv.range("key5", "key2")) == []
    assert "from 'key5' to 'key2' is empty" in caplog.text


def test_a_name_gives_plain_data(tasks: Tasks) -> None:
    table = tasks.remote("table")

    assert table.get("order3") == {"item": "item43", "amount": 43, "note": ""}
    assert table.get_many(["order3"]) == {"order3": {"item": "item43", "amount": 43, "note": ""}}


def test_a_handle_without_types_gives_plain_data_and_one_of_some_its_types(tasks: Tasks) -> None:
    @dataclass
    class Bill:
        item: str
        paid: bool = False

    handle = Materialized.key_value("table", key=str, value=Bill)

    assert tasks.remote(Materialized.key_value("table")).get("order3")["amount"] == 43
    assert tasks.remote(handle).get("order3") == Bill("item43")


class Reversed:
    """A Serde of a user's own."""

    def encode(self, value: str) -> bytes:
        return value.encode()[::-1]

    def decode(self, data: bytes) -> str:
        return data[::-1].decode()


def codec(handle: Any, key: Any, value: Any) -> Codec:
    return Codec("s", handle, Description("key_value", describe_type(key), describe_type(value), {}, 1, False))


def test_what_a_serde_of_the_job_wrote_needs_a_handle_with_it() -> None:
    own = Materialized.key_value("s", key=Reversed(), value=Reversed())

    assert codec(own, Reversed(), Reversed()).value(b"cba") == "abc"
    with pytest.raises(ConfigError, match=r"keys of the store 's' are written by a Serde of the job's own .Serde Reversed."):
        codec("s", Reversed(), str)
    with pytest.raises(ConfigError, match="values of the store 's'"):
        codec("s", str, Reversed())


@pytest.mark.parametrize(
    ("hint", "value", "plain"),
    [
        (None, {"a": (1, 2)}, {"a": (1, 2)}),
        (int, 7, 7),
        (list[datetime], [WHEN], [WHEN]),
        (dict[str, tuple[int, ...]], {"a": (1, 2)}, {"a": (1, 2)}),
        (list[int | None], [1, None], [1, None]),
        (list[Order], [Order("a", 1)], [{"item": "a", "amount": 1, "note": ""}]),
        (serde(Order | int), Order("a", 1), {"item": "a", "amount": 1, "note": ""}),
        (serde(Order | int), 7, 7),
    ],
)
def test_values_asked_for_by_name(hint: Any, value: Any, plain: Any) -> None:
    assert codec("s", str, hint).value(value_serde(hint).encode(value)) == plain


@pytest.mark.parametrize(
    ("hint", "key", "plain"),
    [
        (None, ("a", 1), ("a", 1)),
        (float, 1, 1.0),
        (tuple[str, float], ("a", 1), ("a", 1.0)),
        (Order, ("a", 1, ""), ("a", 1, "")),
        (tuple[int, ...], (1, 2), (1, 2)),
        (int | str, "a", "a"),
    ],
)
def test_keys_asked_for_by_name(hint: Any, key: Any, plain: Any) -> None:
    made = codec("s", hint, int)

    assert made.row((made.key.encode(key), b"\x01")) == (plain, 1)
