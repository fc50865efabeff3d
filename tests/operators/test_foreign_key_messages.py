"""The messages of foreign-key joins: what is sent and how answers are resolved (FK-25 to FK-29), and their form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import xxhash
from raystreams.operators.errors import UnsupportedVersionError
from raystreams.operators.foreign_key_messages import (
    IndexUpdate,
    Instruction,
    LookupRequest,
    LookupResponse,
    Response,
    Subscription,
    check_version,
    fingerprint,
    message_serde,
)
from raystreams.stores.serdes import value_serde

from tests.operators.delayed import DelayedDriver
from tests.operators.foreign_keys import of_tables

SENT = [
    ("left", None, "v|fk1", [("fk1", 2)], 0),
    ("left", None, "v|~", [(None, 2)], 0),
    ("left", "v|fk1", "v|fk2", [("fk1", 0), ("fk2", 2)], 0),
    ("left", "v|fk1", "w|fk1", [("fk1", 2)], 0),
    ("left", "v|fk1", "v|~", [("fk1", 0), (None, 2)], 0),
    ("left", "v|~", "v|fk1", [("fk1", 2)], 0),
    ("left", "v|~", "w|~", [(None, 2)], 0),
    ("left", "v|fk1", None, [("fk1", 0), (None, 2)], 0),
    ("left", "v|~", None, [(None, 2)], 0),
    ("left", None, None, [], 0),
    ("inner", None, "v|fk1", [("fk1", 3)], 0),
    ("inner", None, "v|~", [], 1),
    ("inner", "v|~", "v|fk1", [("fk1", 3)], 0),
    ("inner", "v|fk1", "v|~", [("fk1", 1)], 1),
    ("inner", "v|fk1", "v|fk2", [("fk1", 0), ("fk2", 2)], 0),
    ("inner", "v|~", "w|~", [], 1),
    ("inner", "v|fk1", None, [("fk1", 1)], 0),
    ("inner", None, None, [], 0),
    ("inner", "v|fk1", "w|fk1", [("fk1", 3)], 0),
    ("inner", "v|~", None, [], 0),
]


@pytest.mark.parametrize(("kind", "old", "new", "messages", "dropped"), SENT)
def test_fk_28_subscriptions_sent(
    kind: str, old: str | None, new: str | None, messages: list[tuple[str | None, int]], dropped: int
) -> None:
    driver = DelayedDriver(of_tables(kind, name="j"), partitions=1)
    driver.send("L", "pk", old, 1)
    driver.edges.clear()
    driver.dropped.clear()

    driver.send("L", "pk", new, 2)

    channel = driver.topology.channels["j-subscription-registration-topic"]
    sent = [
        (None if key is None else channel.key.decode(key), channel.value.decode(value))
        for key, value, _, _ in driver.edges[channel.name, 0, 0]
    ]
    wanted_hash = None if new is None else fingerprint(value_serde(None))(new)
    assert [(key, message.instruction) for key, message in sent] == messages
    assert {message.hash for _, message in sent} <= {wanted_hash}
    assert sum(driver.dropped.values()) == dropped


ANSWERED = [
    ("inner", "changed|fk", "v|fk", "rv", [], 1),
    ("inner", None, "v|fk", "rv", [], 1),
    ("inner", "v|fk", "v|fk", "rv", ["v|fk-rv"], 0),
    ("inner", "v|fk", "v|fk", None, [None], 0),
    ("left", "v|fk", "v|fk", None, ["v|fk-null"], 0),
    ("left", None, None, None, [None], 0),
]


@pytest.mark.parametrize(("kind", "current", "asked", "value", "outputs", "dropped"), ANSWERED)
def test_fk_29_answers_resolved(
    kind: str, current: str | None, asked: str | None, value: str | None, outputs: list[str | None], dropped: int
) -> None:
    driver = DelayedDriver(of_tables(kind, name="j"), partitions=1)
    driver.send("L", "pk", current, 1)
    driver.edges.clear()
    serde = value_serde(None)
    answer = Response(
        None if asked is None else fingerprint(serde)(asked), None if value is None else serde.encode(value)
    )
    channel = driver.topology.channels["j-subscription-response-topic"]
    edge = (channel.name, 0, 0)
    driver.edges[edge].append((channel.key.encode("pk"), channel.value.encode(answer), 2, {}))

    driver.deliver(edge)

    assert [record.value for record in driver.outputs] == outputs
    assert sum(driver.dropped.values()) == dropped


@pytest.mark.parametrize(
    "message",
    [
        Subscription(Instruction.DELETE_KEY_AND_PROPAGATE, b"pk", None),
        Subscription(Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, b"", bytes(16), 3),
        Response(bytes(16), b""),
        Response(None, None, quiet=True),
        Response(bytes(16), None, ended=True),
        IndexUpdate(b"pk", None),
        LookupRequest(3, 2**40),
        LookupResponse(2**40, b""),
    ],
)
def test_messages_come_back_as_they_were_and_newer_ones_are_refused(message: Any) -> None:
    serde = message_serde(type(message))

    assert serde.decode(serde.encode(message)) == message
    check_version(message)
    with pytest.raises(UnsupportedVersionError, match="of version 2"):
        check_version(msgspec.structs.replace(message, version=2))


@dataclass
class Price:
    amount: float


def test_a_hash_is_that_of_the_value_as_it_will_be_read_again() -> None:
    plain, typed = fingerprint(value_serde(None)), fingerprint(value_serde(Price))

    assert plain("A|r1") == xxhash.xxh3_128_digest(value_serde(None).encode("A|r1"))
    assert len(plain("")) == 16
    assert typed(Price(5)) == typed(Price(5.0)) != typed(Price(5.5))
