"""The join of two tables by a foreign key in the left one's values (KIP-213), inner and left: the two-way protocol.

    left table's partition                            right table's partition
    ----------------------                            -----------------------
    left change
       | 1 SubscriptionSend
       |      (hash of the left value)
       +---- Subscription, keyed by foreign key ---->  2 SubscriptionReceive --- subscriptions:
                                                          |                      (foreign key, primary key) -> hash
                                                       3 SubscriptionAnswer           ^
                                                          |    (right row now)        | scan of a foreign key
                                                          |                        4 FanOut <--- right change
    5 Resolve <---- Response, keyed by primary key -------+---------------------------+
       |      (hash still that of the left row?)
    result table

Left and right rows need not be in the same partition: each change makes a trip to the foreign key's partition and back, a
right change only back. The hash guards against answers that a newer left value has overtaken. The response channel
depends on what its receiver sent, so it never holds that one's inputs back (`feedback`).

Both tables are stored and send old values. The result is a table keyed as the left one, stored only if asked for, and never
versioned unless its own store is. Names and their numbers are Kafka's (spec-joins 4.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raystreams.operators.foreign_key_answer import FanOut, ResponseSink, SubscriptionAnswer, SubscriptionReceive
from raystreams.operators.foreign_key_messages import Response, Subscription, key_partitioner, message_serde, taking_key
from raystreams.operators.foreign_key_resolve import Resolve
from raystreams.operators.foreign_key_send import SubscriptionSend, SubscriptionSink
from raystreams.operators.graph import Channel, ChannelSource
from raystreams.operators.hints import value_of
from raystreams.operators.options import TableJoined
from raystreams.operators.table_source import add_table
from raystreams.stores.builders import Stores, subscription_store

if TYPE_CHECKING:
    from raystreams.operators.ktable import KTable
    from raystreams.operators.table_table_join import TableJoin

_JOIN = "KTABLE-FK-JOIN-"


def add_foreign_key_join(
    left: KTable[Any, Any],
    right: KTable[Any, Any],
    foreign_key: Callable[..., Any],
    foreign_key_with_key: bool,
    table_joined: TableJoined | None,
    join: TableJoin,
) -> KTable[Any, Any]:
    """`KTable.join` and `left_join` with `foreign_key=`."""
    draft, name = left._draft, join.name

    def named(prefix: str, suffix: str) -> str:
        return draft.named(prefix, None if name is None else name + suffix)

    for table in (left._table, right._table):
        table.enable_old()
        table.materialize()
    subscriptions = named(f"{_JOIN}SUBSCRIPTION-REGISTRATION-", "-subscription-registration") + "-topic"
    send = named(f"{_JOIN}SUBSCRIPTION-REGISTRATION-", "-subscription-registration-processor")
    send_sink = named("KTABLE-SINK-", "-subscription-registration-sink")
    send_source = named("KTABLE-SOURCE-", "-subscription-registration-source")
    store = draft.store_named(f"{_JOIN}SUBSCRIPTION-STATE-STORE-", None if name is None else f"{name}-subscription-store")
    if name is not None:
        draft.number()
    receive = named(f"{_JOIN}SUBSCRIPTION-PROCESSOR-", "-subscription-receive")
    answer = named(f"{_JOIN}SUBSCRIPTION-PROCESSOR-", "-subscription-join-foreign")
    fan_out = named(f"{_JOIN}SUBSCRIPTION-PROCESSOR-", "-foreign-join-subscription")
    responses = named(f"{_JOIN}SUBSCRIPTION-RESPONSE-", "-subscription-response") + "-topic"
    answer_sink = named("KTABLE-SINK-", "-subscription-response-sink")
    answer_source = named("KTABLE-SOURCE-", "-subscription-response-source")
    resolve = named(f"{_JOIN}SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver")
    result = named(f"{_JOIN}OUTPUT-", "-result")
    result_store = draft.store_named(
        f"{_JOIN}OUTPUT-STATE-STORE-", join.materialized.name if join.materialized is not None else None
    )

    extractor = taking_key(foreign_key, with_key=foreign_key_with_key)
    by_other = key_partitioner(table_joined, "other_partitioner", right._key)
    by_home = key_partitioner(table_joined, "partitioner", left._key)
    is_left = join.kind == "left"

    draft.add(
        send,
        lambda: SubscriptionSend(
            foreign_key=extractor, left=is_left, versioned=left._table.versioned, key=left._key, value=left._value,
            other_key=right._key, counted_as=name,
        ),
        [left._node],
        on_error=join.on_error,
    )  # fmt: skip
    draft.add(send_sink, lambda: SubscriptionSink(channel=subscriptions), [send])
    draft.add(send_source, lambda: ChannelSource(channel=subscriptions))
    draft.add_channel(
        Channel(
            name=subscriptions, source=send_source, key=right._key, value=message_serde(Subscription), is_table=True,
            partitioner=by_other,
        )
    )  # fmt: skip
    draft.add_store(subscription_store(store))
    draft.add(
        receive,
        lambda: SubscriptionReceive(store=store, other_key=right._key, counted_as=name),
        [send_source],
        stores=[store],
    )
    draft.add(
        answer,
        lambda: SubscriptionAnswer(table=right._table.node, key=left._key, other_value=right._value),
        [receive],
        stores=[right._table],
    )
    draft.add(
        fan_out,
        lambda: FanOut(
            store=store, versioned=right._table.versioned, key=left._key, other_key=right._key, other_value=right._value,
            counted_as=name,
        ),
        [right._node],
        stores=[store],
    )  # fmt: skip
    draft.add(answer_sink, lambda: ResponseSink(channel=responses, by_home=by_home is None), [answer, fan_out])
    draft.add(answer_source, lambda: ChannelSource(channel=responses))
    draft.add_channel(
        Channel(
            name=responses, source=answer_source, key=left._key, value=message_serde(Response), is_table=True, feedback=True,
            partitioner=by_home,
        )
    )  # fmt: skip
    given = None
    if not is_left:
        given = draft.store_of(resolve, "-given", name)
        draft.add_store(Stores.key_value(given, key=left._key, value=bool))
    draft.add(
        resolve,
        lambda: Resolve(
            table=left._table.node, given=given, foreign_key=extractor, joiner=join.joiner, with_key=join.with_key,
            value=left._value, other_value=right._value, counted_as=name,
        ),
        [answer_source],
        stores=[left._table] if given is None else [left._table, given],
        on_error=join.on_error,
    )  # fmt: skip
    value = value_of(join.joiner, join.value)
    return add_table(draft, resolve, result, result_store, join.materialized, left._key, value)
