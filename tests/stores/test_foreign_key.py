"""Rows by foreign key and primary key, as they are and as they were."""

from __future__ import annotations

import random

from raystreams.stores.builders import foreign_key_index, subscription_store, versioned_foreign_key_index

from tests.stores.conftest import MakeHome
from tests.stores.models import VersionedModel

KEYS = [b"", b"a", b"ab", b"a|b", b"a\0", b"a\0b", b"\xff"]


def test_a_foreign_key_finds_its_own_rows_only(home: MakeHome) -> None:  # B07
    for builder in (subscription_store("s"), foreign_key_index("i")):
        made = home(builder)
        for foreign in KEYS:
            for primary in KEYS:
                made.store.put(foreign, primary, foreign + b":" + primary)
            made.commit()
        made.store.delete(b"a", b"ab")
        made.store.delete(b"a", b"never there")
        made.store.put(b"ab", b"", b"new")

        assert list(made.store.scan(b"a")) == [(key, b"a:" + key) for key in sorted(KEYS) if key != b"ab"]
        assert next(made.store.scan(b"ab")) == (b"", b"new")
        assert list(made.store.scan(b"abc")) == []
        assert made.store.get(b"a\0", b"a") == b"a\0:a"
        assert made.store.get(b"a", b"ab") is None


def test_a_scan_is_not_disturbed_by_what_it_causes(home: MakeHome) -> None:
    store = home(subscription_store("s")).store
    for primary in (b"a", b"b", b"c"):
        store.put(b"f", primary, b"")
    seen = []
    for primary, _ in store.scan(b"f"):
        seen.append(primary)
        store.delete(b"f", b"c")
        store.put(b"f", primary + b"x", b"")

    assert seen == [b"a", b"b", b"c"]


def test_a_versioned_index_gives_the_rows_of_any_time(home: MakeHome) -> None:
    made = home(versioned_foreign_key_index("v", history_retention=50))
    model = VersionedModel(50)
    dice = random.Random(3)
    for step in range(600):
        pair, at = (dice.choice(KEYS), dice.choice(KEYS)), dice.randint(0, 40) + step // 5
        row = dice.choice([None, b"%d" % step])
        assert made.store.put(*pair, row, at) == model.put(pair, row, at)
        if step % 40 == 39:
            made.restart()
        foreign = dice.choice(KEYS)
        for as_of in (None, at, at - 20):
            expected = []
            for primary in sorted(KEYS):
                pair = (foreign, primary)
                found = model.get(pair) if as_of is None else model.get_as_of(pair, as_of)
                if found is not None:
                    expected.append((primary, found[1]))
            assert list(made.store.scan(foreign, as_of)) == expected
