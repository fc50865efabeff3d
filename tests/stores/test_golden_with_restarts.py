"""Golden store cases again, with commits and restarts between their operations: the same lists."""

from __future__ import annotations

from typing import Any

import pytest

from tests.golden import stores
from tests.golden.test_golden import STORES, cases
from tests.stores.conftest import MakeHome


def results(home: MakeHome, case: dict[str, Any], restart_every: int) -> list[Any]:
    made = home(stores.builder_of(case["store"]))
    kind = next(iter(case["store"]))
    out: list[Any] = []
    for number, operation in enumerate(case["ops"]):
        try:
            out.append(stores.operate(made.store, kind, operation))
        except ValueError:
            out.append("error")
        if number % restart_every == restart_every - 1:
            made.restart()
        elif number % 2:
            made.commit()
    return out


@pytest.mark.parametrize("family", STORES)
def test_stores_give_the_golden_results_whatever_is_restarted(family: str, home: MakeHome) -> None:
    for number, case in enumerate(cases(family)[:12]):
        assert results(home, case, 5 + number) == case["expected"], case["id"]
