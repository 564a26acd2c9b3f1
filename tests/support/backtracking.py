"""Count the steps that a backtracking matcher needs for a pattern and a text; unlike a time, the count is exact.

The matcher walks over the tree that Python's parser makes of a pattern. It has the shortcut that Python has for a
repeated single character: its end is found in one step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from re import _constants as op
from re import _parser
from typing import Any

Then = Callable[[int], bool]


class TooManyError(Exception):
    """Matching took more steps than allowed."""


def nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all nodes of a parsed pattern, or of a part of one."""
    if isinstance(tree, _parser.SubPattern):
        for node in tree:
            yield node
            yield from nodes(node[1])
    elif isinstance(tree, list | tuple):
        for each in tree:
            yield from nodes(each)


def characters(tree: Any) -> list[str]:
    """Return the characters that a pattern names."""
    found: set[int] = set()
    for code, value in nodes(tree):
        if code in (op.LITERAL, op.NOT_LITERAL):
            found.add(value)
        elif code is op.IN:
            found |= {each for kind, each in value if kind is op.LITERAL}
            found |= {end for kind, each in value if kind is op.RANGE for end in each}
    return [chr(each) for each in sorted(found)]


def steps(pattern: re.Pattern[Any], text: str, most: int, *, whole: bool = True) -> int:
    """Return the steps of a match at the beginning of a text, of all of it if `whole`; raise TooManyError."""
    return _Matcher(pattern, text, most).run(whole=whole)


class _Matcher:
    def __init__(self, pattern: re.Pattern[Any], text: str, most: int) -> None:
        self._tree = _parser.parse(pattern.pattern, pattern.flags)
        self._flags, self._text, self._most = pattern.flags, text, most
        self._groups: dict[int, tuple[int, int]] = {}
        self._count = 0

    def run(self, *, whole: bool) -> int:
        self._all(list(self._tree), 0, lambda at: at == len(self._text) or not whole)
        return self._count

    def _step(self) -> None:
        self._count += 1
        if self._count > self._most:
            raise TooManyError

    def _all(self, items: Sequence[tuple[Any, Any]], at: int, then: Then) -> bool:
        if not items:
            return then(at)
        return self._one(*items[0], at, lambda end: self._all(items[1:], end, then))

    def _one(self, code: Any, value: Any, at: int, then: Then) -> bool:
        self._step()
        if code in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            return at < len(self._text) and self._fits(code, value, at) and then(at + 1)
        if code is op.BRANCH:
            return any(self._all(list(each), at, then) for each in value[1])
        if code is op.SUBPATTERN:
            return self._all(list(value[3]), at, lambda end: self._grouped(value[0], at, end, then))
        if code in (op.ASSERT, op.ASSERT_NOT):
            direction, inside = value
            begins = [at] if direction > 0 else range(at + 1)
            found = any(self._all(list(inside), begin, lambda end: direction > 0 or end == at) for begin in begins)
            return found is (code is op.ASSERT) and then(at)
        if code is op.AT:
            return self._stands(value, at) and then(at)
        if code in (op.MAX_REPEAT, op.MIN_REPEAT):
            return self._repeat(value, at, then, greedy=code is op.MAX_REPEAT)
        if code is op.GROUPREF:
            begin, end = self._groups.get(value, (0, -1))
            word = self._text[begin:end]
            return end >= 0 and self._text.startswith(word, at) and then(at + len(word))
        assert code is op.GROUPREF_EXISTS, code
        return self._all(list((value[1] if value[0] in self._groups else value[2]) or ()), at, then)

    def _grouped(self, group: int | None, begin: int, end: int, then: Then) -> bool:
        if group is None:
            return then(end)
        before = self._groups.get(group)
        self._groups[group] = begin, end
        if then(end):
            return True
        self._groups.pop(group) if before is None else self._groups.update({group: before})
        return False

    def _repeat(self, value: Any, at: int, then: Then, *, greedy: bool) -> bool:
        least, most, item = value
        if len(item) == 1 and item[0][0] in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            code, one = item[0]
            end = at
            while end < len(self._text) and end - at < most and self._fits(code, one, end):
                end += 1
            places = range(at + least, end + 1)
            for place in reversed(places) if greedy else places:
                self._step()
                if then(place):
                    return True
            return False
        return self._times(list(item), least, most, at, then, greedy=greedy)

    def _times(self, item: Any, least: int, most: int, at: int, then: Then, *, greedy: bool) -> bool:
        def more() -> bool:
            return bool(most) and self._all(
                item,
                at,
                lambda end: (
                    (end > at or least > 0) and self._times(item, max(0, least - 1), most - 1, end, then, greedy=greedy)
                ),
            )

        if least:
            return more()
        return more() or then(at) if greedy else then(at) or more()

    def _fits(self, code: Any, value: Any, at: int) -> bool:
        here = self._text[at]
        if code is op.IN:
            negated = value[0][0] is op.NEGATE
            return any(self._is(kind, each, here) for kind, each in value[negated:]) is not negated
        return code is op.ANY or self._is(op.LITERAL, value, here) is (code is op.LITERAL)

    def _is(self, code: Any, value: Any, here: str) -> bool:
        forms = {here, here.lower(), here.upper()} if self._flags & re.IGNORECASE else {here}
        if code is op.LITERAL:
            return any(ord(each) == value for each in forms if len(each) == 1)
        if code is op.RANGE:
            return any(value[0] <= ord(each) <= value[1] for each in forms if len(each) == 1)
        kind = str(value).rpartition("_")[2]  # value is a category, like CATEGORY_NOT_DIGIT
        found = here.isdigit() if kind == "DIGIT" else here.isspace() if kind == "SPACE" else _is_word(here)
        return found is ("_NOT_" not in str(value))

    def _stands(self, where: Any, at: int) -> bool:
        if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return at == 0
        if where in (op.AT_END, op.AT_END_STRING):
            return at == len(self._text)
        sides = [0 <= each < len(self._text) and re.match(r"\w", self._text[each]) is not None for each in (at - 1, at)]
        return (sides[0] != sides[1]) is (where is op.AT_BOUNDARY)


def _is_word(here: str) -> bool:
    return here.isalnum() or here == "_"
