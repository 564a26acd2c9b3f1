"""The algebra of joins with one part of it wrong each: the tests must see that tables are wrong then."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from operators.joined import CASES
from operators.test_join import check, check_nested
from sinkql.errors import SinkqlError
from sinkql.runtime.local import sides
from sinkql.runtime.state import crossed, lookup, pairs, side, within

pytestmark = pytest.mark.long

NESTED = "joins in one task"
MUTANTS: list[tuple[ModuleType, str, str, str]] = [
    (pairs, "(came, right.new, 0)", "(came, right.old, 0)", "inner"),
    (pairs, "(went, right.old, 0)", "(went, right.new, 0)", "inner"),
    (pairs, "left.stayed, 1)", "left.old, 1)", "inner"),
    (pairs, "left.stayed, 1)", "left.new, 1)", "full"),
    (pairs, "delta.diff[mine] * found.diff[other]", "delta.diff[mine]", "inner"),
    (pairs, "(was & ~now, mine.old, -1)", "(was & ~now, mine.new, -1)", "left"),
    (pairs, "(was & ~now, mine.old, -1)", "(was & ~now, mine.old, 1)", "anti"),
    (pairs, "(~was & now, mine.new, 1)", "(~was & now, mine.old, 1)", "right"),
    (pairs, "(was & now, mine.delta.found, 1)", "(was & now, mine.delta.found, -1)", "full"),
    (
        pairs,
        "self._alone(0, lambda count: count > 0)",
        "self._alone(0, lambda count: count > 1)",
        "semi",
    ),
    (
        pairs,
        "self._alone(0, lambda count: count == 0)",
        "self._alone(0, lambda count: count < 2)",
        "anti",
    ),
    (
        pairs,
        "self._alone(1, lambda count: count == 0)",
        "self._alone(1, lambda count: count < 2)",
        "full",
    ),
    (pairs, "after = before + other.delta.counts(touched)", "after = before", "left"),
    (lookup, "if not equal.all():", "if False:", "by two columns"),
    (lookup, "if (found.diff < 0).any() else found", "if False else found", "full"),
    (lookup, "left = left[~known[left]]", "pass", "full of the latest with the latest"),
    (side, "ints(self.rows.column(SEQ)))", "-ints(self.rows.column(SEQ)))", "left with the latest"),
    (
        side,
        "_some(keys, hashes, before, was & changed, -1)",
        "_some(keys, hashes, before, was & now, -1)",
        "full with the latest",
    ),
    (side, "return old.some(", "return old or old.some(", "inner of the latest"),
    (
        side,
        "gone = find(keys, hashes, own, halves) < 0",
        "gone = find(keys, hashes, own, halves) < -1",
        "full with the latest",
    ),
    (side, "now if self.cleared else changed", "changed", "left of the latest with the latest"),
    (
        crossed,
        "self._crossed(came, self.whole.new())",
        "self._crossed(came, self.whole.old())",
        "inner with a replicated side",
    ),
    (
        crossed,
        "self._crossed(went, self.whole.old())",
        "self._crossed(went, self.whole.new())",
        "inner with a replicated side",
    ),
    (
        crossed,
        "self.spread.rows(self.spread.went())",
        "self.spread.rows(self.spread.table.slice(0, 0))",
        "inner with a replicated side",
    ),
    (
        crossed,
        "self.spread.rows(self.spread.table), 1)",
        "self.spread.rows(self.spread.went()), 1)",
        "anti with a replicated side",
    ),
    (sides, "if not side.preserved:", "if side.preserved:", "left"),
    (
        sides,
        "preparation.place) if side.replicated else found",
        "preparation.place) if False else found",
        "inner beside a replicated side",
    ),
    (sides, "loose |= ", "loose &= ", "full"),
    (within, "left.old, right.old", "left.new, right.new", NESTED),
    (within, "left.new, right.new", "left.old, right.old", NESTED),
    (within, "left.stayed, right.stayed", "left.old, right.old", NESTED),
    (within, "self._alone(keys, (0,))", "self._alone(keys, (1,))", NESTED),
    (within, "self._alone(keys, (1,))", "self._alone(keys, (0,))", NESTED),
    (within, "self._alone(keys, (0, 1))", "self._alone(keys, (0,))", NESTED),
    (within, "found += np.where(", "found -= np.where(", NESTED),
    (within, 'order = np.argsort(keys, kind="stable")', "order = np.arange(len(keys))", NESTED),
]
"""A module, a text in it and what stands there instead, and the case of which a table is wrong then."""
SEEDS, TREES = 6, 40
USERS = (lookup, side, pairs, crossed, sides, within)
"""The modules that use functions of each other."""


def broken(patch: pytest.MonkeyPatch, module: ModuleType, right: str, wrong: str) -> None:
    """Have a module's functions do what they would with another text in them."""
    text = inspect.getsource(module)
    assert text.count(right) == 1, text.count(right)
    other = ModuleType(module.__name__)
    exec(compile(text.replace(right, wrong), "mutant", "exec"), other.__dict__)  # our own source
    for name, found in vars(other).items():
        own = getattr(module, name, None)
        if isinstance(found, FunctionType) and found.__module__ == module.__name__:
            for each in USERS:
                if getattr(each, name, None) is own:
                    patch.setattr(each, name, found)
        elif isinstance(own, type) and own.__module__ == module.__name__:
            for method, body in vars(found).items():
                if isinstance(body, FunctionType):
                    patch.setattr(own, method, body)


@pytest.mark.parametrize("number", range(len(MUTANTS)))
def test_a_wrong_part_of_a_join_is_found(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, right, wrong, name = MUTANTS[number]
    with monkeypatch.context() as patch:
        broken(patch, module, right, wrong)
        with pytest.raises((AssertionError, SinkqlError, IndexError)):
            _check_all(name, tmp_path)


def _check_all(name: str, folder: Path) -> None:
    """Run some histories; in some of them hashes collide."""
    if name == NESTED:
        for seed in range(TREES):
            check_nested(folder / str(seed), f"nested {seed}", (5, 9, 9, 9, 9))
        return
    for seed in range(SEEDS):
        check(CASES[name], folder / str(seed), f"{name}{seed}", (6, 12, 12, 12))
