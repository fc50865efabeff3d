"""CDC tables joined by foreign key into documents: a customer with all open orders, each with its address.

    orders --customer_id--> customers --address_id--> addresses --by customer--> documents

Any row of any table may change or go; the documents follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

import raystreams as rs


@dataclass(frozen=True)
class Order:
    id: int
    customer_id: int | None
    address_id: int | None
    total: Decimal


@dataclass(frozen=True)
class Customer:
    id: int
    name: str


@dataclass(frozen=True)
class Address:
    id: int
    city: str


@dataclass(frozen=True)
class WithCustomer:
    order: Order
    customer: Customer | None


@dataclass(frozen=True)
class OrderDoc:
    order: Order
    customer: Customer | None
    address: Address | None


@dataclass
class CustomerDoc:
    name: str | None = None
    orders: dict[int, OrderDoc] = field(default_factory=dict)


ORDERS = rs.Topic("orders", key=int, value=Order)
CUSTOMERS = rs.Topic("customers", key=int, value=Customer)
ADDRESSES = rs.Topic("addresses", key=int, value=Address)
DOCS = rs.Topic("customer-docs", key=int, value=CustomerDoc)
CUSTOMER_DOCS = rs.Materialized.key_value("customer_docs", key=int, value=CustomerDoc)


def with_address(doc: WithCustomer, address: Address | None) -> OrderDoc:
    return OrderDoc(doc.order, doc.customer, address)


def add(customer_id: int, doc: OrderDoc, out: CustomerDoc) -> CustomerDoc:
    out.name = doc.customer.name if doc.customer else None
    out.orders[doc.order.id] = doc
    return out


def remove(customer_id: int, doc: OrderDoc, out: CustomerDoc) -> CustomerDoc | None:
    del out.orders[doc.order.id]
    return out if out.orders else None


def build() -> rs.Topology:
    builder = rs.StreamsBuilder()
    orders, customers, addresses = builder.table(ORDERS), builder.table(CUSTOMERS), builder.table(ADDRESSES)
    docs = orders.left_join(
        customers, WithCustomer, foreign_key=lambda order: order.customer_id, name="with-customer"
    ).left_join(addresses, with_address, foreign_key=lambda doc: doc.order.address_id, name="with-address")
    (
        docs.group_by(lambda id, doc: (doc.order.customer_id, doc), key=int, value=OrderDoc, name="by-customer")
        .aggregate(CustomerDoc, add, remove, materialized=CUSTOMER_DOCS, name="documents")
        .to_stream()
        .to(DOCS)
    )
    return builder.build()
