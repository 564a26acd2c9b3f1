"""Random expressions, conditions, aggregates and windows over the columns in scope, each of one type.

Results that SQL leaves open do not occur. Quotients and means are outputs of the outermost query only. Texts are
ordered by bytes, and rows are numbered by all their columns and compared value by value.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from views.random_relation import RELATIONS, TYPES, Type

_T = TypeVar("_T")

LITERALS: dict[Type, tuple[str, ...]] = {
    "int": ("0", "1", "2", "3", "-1"),
    "num": ("0.00", "1.50", "2.25", "-1.50"),
    "text": ("'a'", "'B'", "'ab'", "''"),
    "bool": ("true", "false"),
    "date": ("date '2024-02-29'", "date '2024-03-01'"),
}
EXACT: tuple[Type, ...] = ("int", "int", "int", "num", "text", "bool", "date")
_COMPARISONS = ("=", "=", "=", "<>", "<", "<=", ">", ">=")
_FRAMES = (
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING", "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "GROUPS 1 PRECEDING",
)  # fmt: skip
_EXCLUDED = ("CURRENT ROW", "GROUP", "TIES")


@dataclass(frozen=True)
class Column:
    """A column, and the text that names it in an expression."""

    text: str
    type: Type


@dataclass(frozen=True)
class Query:
    """A query, the types of its columns c0, c1, …, and how often it uses each form of SQL."""

    sql: str
    types: tuple[Type, ...]
    forms: Counter[str]


Scope = Sequence[Column]


class Expressions:
    """Generates expressions; a subclass generates the queries within them."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.names = 0
        self.room = 9
        """How many more relations the query may read."""
        self.forms: Counter[str] = Counter()

    @abstractmethod
    def query(self, depth: int, *, outer: Scope, types: Sequence[Type] | None = None) -> str:
        """Return a query with columns of these types."""

    @abstractmethod
    def from_(self, depth: int, outer: Scope, reading: Sequence[str]) -> tuple[str, list[Column], list[str]]:
        """Return a FROM clause, its columns, and conditions on them."""

    # --- chance ------------------------------------------------------------------------------------------------------

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def one(self, given: Sequence[_T]) -> _T:
        return self.random.choice(given)

    def some(self, given: Sequence[_T], most: int) -> list[_T]:
        """Return between one and `most` items, in random order."""
        return self.random.sample(given, self.random.randint(1, min(most, len(given))))

    def name(self, character: str) -> str:
        self.names += 1
        return f"{character}{self.names}"

    def made(self, form: str, sql: str) -> str:
        """Count the form, and return the text."""
        self.forms[form] += 1
        return sql

    def drawn(self, forms: Sequence[tuple[int, Callable[[], _T]]]) -> _T:
        """Return the result of one of these functions, chosen by weight."""
        ((_, make),) = self.random.choices(forms, [weight for weight, _ in forms])
        return make()

    def direction(self) -> str:
        return self.one(("", "", " DESC", " DESC NULLS LAST", " NULLS FIRST"))

    def whole(self, scope: Scope) -> str:
        return ", ".join(f"{each.text}{self.direction()}" for each in self.random.sample(list(scope), len(scope)))

    # --- values ------------------------------------------------------------------------------------------------------

    def expression(self, type_: Type, scope: Scope, outer: Scope, depth: int) -> str:
        if depth and self.room > 1 and self.chance(9):
            if type_ == "bool":
                return self.made("subquery: value of a condition", f"({self.subquery_condition(scope, depth)})")
            if self.chance(30):
                condition = self.subquery_condition(scope, depth)
                either, other = (self.own(type_, scope) for _ in range(2))
                return self.made("subquery: in CASE", f"CASE WHEN {condition} THEN {either} ELSE {other} END")
            return self.scalar(type_, scope, depth)
        columns = [each.text for each in scope if each.type == type_]
        if outer and self.chance(6):
            columns = [each.text for each in outer if each.type == type_] or columns
        if columns and self.chance(65):
            return self.one(columns)
        if self.chance(25):
            return self.one(LITERALS[type_])
        return self.computed(type_, scope, outer)

    def own(self, type_: Type, scope: Scope) -> str:
        """Return a column or a literal."""
        columns = [each.text for each in scope if each.type == type_]
        return self.one(columns) if columns and self.chance(80) else self.one(LITERALS[type_])

    def computed(self, type_: Type, scope: Scope, outer: Scope) -> str:
        def own(wanted: Type = type_) -> str:
            return self.own(wanted, scope)

        literal = self.one(LITERALS[type_])
        forms: list[Callable[[], str]] = [
            lambda: f"coalesce({own()}, {literal})",
            lambda: f"CASE WHEN {self.condition(scope, outer, 0)} THEN {own()} ELSE {own()} END",
            lambda: f"nullif({own()}, {literal})",
        ]
        match type_:
            case "int":
                forms += [lambda: f"({own()} + {own()})", lambda: f"({own()} - {own()})", lambda: f"({own()} * 2)"]
                forms += [lambda: f"({own()} % 3)", lambda: f"({own()} / 2)", lambda: f"abs({own()})"]
                forms += [lambda: f"length({own('text')})"]
            case "num":
                forms += [lambda: f"({own()} + {own()})", lambda: f"({own()} - {own()})"]
            case "text":
                forms += [lambda: f"({own()} || {own()})", lambda: f"substr({own()}, 1, 1)"]
            case "bool":
                forms = [lambda: f"({self.condition(scope, outer, 0)})"]
        return self.one(forms)()

    def scalar(self, type_: Type, scope: Scope, depth: int) -> str:
        """Return a subquery of one row, perhaps correlated with these columns."""
        outer = scope if self.chance(70) else ()
        if self.chance(20) and type_ in ("int", "text", "date"):
            ints = [each.text for each in outer if each.type == "int"]
            key = self.one(ints) if ints else "1"
            table, alias = self.one([each for each in RELATIONS if each.key]), self.name("r")
            columns = [f"{alias}.{name}" for name in table.columns if TYPES[name] == type_]
            self.room -= 1
            found = f"(SELECT {self.one(columns)} FROM {table.name} {alias} WHERE {alias}.id = {key})"
            return self.made("subquery: value by key", found)
        below, inner, conditions = self.from_(0 if self.chance(60) else depth - 1, (), ())
        if outer:
            conditions.append(self.correlation(inner, outer))
        if self.chance(30):
            conditions.append(self.condition(inner, (), depth - 1))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        form = f"subquery: value, {'correlated' if outer else 'alone'}"
        if self.chance(15):
            item = self.expression(type_, inner, (), 0)
            found = f"(SELECT {item} FROM {below}{where} ORDER BY 1{self.direction()} LIMIT 1)"
            return self.made(f"{form}, first row", found)
        return self.made(form, f"(SELECT {self.aggregate(type_, inner, 0)} FROM {below}{where})")

    # --- conditions --------------------------------------------------------------------------------------------------

    def condition(self, scope: Scope, outer: Scope, depth: int) -> str:
        if depth and self.room > 1 and self.chance(45):
            found = self.subquery_condition(scope, depth)
        else:
            found = self.simple(scope, outer)
        if self.chance(15):
            found = f"({found} OR {self.simple(scope, outer)})"
        elif self.chance(15):
            found = f"{found} AND {self.simple(scope, outer)}"
        elif self.chance(8):
            found = f"NOT ({found})"
        return found

    def simple(self, scope: Scope, outer: Scope) -> str:
        column = self.one(scope)
        literals = LITERALS[column.type]
        same = [each.text for each in (*scope, *outer) if each.type == column.type]
        other = self.one(same) if self.chance(50) else self.one(literals)
        forms = [
            f"{column.text} {self.one(_COMPARISONS)} {other}",
            f"{column.text} {self.one(_COMPARISONS)} {other}",
            f"{column.text} IS {self.one(('', 'NOT '))}NULL",
            f"{column.text} IS {self.one(('', 'NOT '))}DISTINCT FROM {other}",
            f"{column.text} {self.one(('', 'NOT '))}IN ({', '.join(self.some(literals, 3))})",
            f"{column.text} BETWEEN {self.one(literals)} AND {self.one(literals)}",
        ]
        if self.chance(8):
            listed = ", ".join(f"({each})" for each in self.some(literals, 3))
            return self.made("IN (VALUES …)", f"{column.text} {self.one(('', 'NOT '))}IN (VALUES {listed})")
        if column.type == "text":
            forms.append(f"{column.text} {self.one(('', 'NOT '))}LIKE {self.one(('%a%', 'a_', '%', ''))!r}")
        if column.type == "bool":
            forms += [column.text, f"NOT {column.text}", f"{column.text} IS {self.one(('', 'NOT '))}TRUE"]
        return self.one(forms)

    def subquery_condition(self, scope: Scope, depth: int) -> str:
        correlated = self.chance(70)
        outer = scope if correlated else ()
        column = self.one(scope)
        sort = "correlated" if correlated else "alone"
        no = self.one(("", "NOT "))

        def within(types: Sequence[Type] | None) -> str:
            return self.query(depth - 1, outer=outer, types=types)

        match self.random.randrange(7):
            case 0 | 1:
                return self.made(f"subquery: {no}EXISTS, {sort}", f"{no}EXISTS ({within(None)})")
            case 2 | 3:
                return self.made(f"subquery: {no}IN, {sort}", f"{column.text} {no}IN ({within((column.type,))})")
            case 4 | 5:
                quantifier, comparison = self.one(("ANY", "ALL")), self.one(_COMPARISONS)
                found = f"{column.text} {comparison} {quantifier} ({within((column.type,))})"
                return self.made(f"subquery: {quantifier}, {sort}", found)
            case _:
                left = self.scalar(column.type, scope, depth) if self.chance(20) else column.text
                return f"{left} {self.one(_COMPARISONS)} {self.scalar(column.type, scope, depth)}"

    def equality(self, left: Scope, right: Scope) -> str:
        types = {each.type for each in left} & {each.type for each in right} - {"bool"}
        if not types:
            return self.comparison(left, right)
        type_ = self.one(sorted(types))
        pair = [self.one([each for each in side if each.type == type_]).text for side in (left, right)]
        if type_ == "int" and self.chance(15):
            pair[1] = f"{pair[1]} + 1"
        word = " IS NOT DISTINCT FROM " if self.chance(8) else " = "
        found = word.join(pair if self.chance(50) else pair[::-1])
        return f"{found} AND {self.equality(left, right)}" if self.chance(12) else found

    def comparison(self, left: Scope, right: Scope) -> str:
        types = {each.type for each in left} & {each.type for each in right}
        if not types:
            return self.one(("true", "1 = 1"))
        type_ = self.one(sorted(types))
        pair = [self.one([each for each in side if each.type == type_]).text for side in (left, right)]
        return self.one(("<", ">", "<=", "<>")).join(f" {each} " for each in pair).strip()

    def correlation(self, scope: Scope, outer: Scope) -> str:
        if self.chance(70):
            return self.made("correlated by equality", self.equality(scope, outer))
        return self.made("correlated otherwise", self.comparison(scope, outer))

    # --- aggregates --------------------------------------------------------------------------------------------------

    def aggregate(self, type_: Type, scope: Scope, depth: int) -> str:
        distinct = "DISTINCT " if self.chance(15) else ""
        filter_ = ""
        if self.chance(25):
            deep = depth if self.chance(20) else 0
            filter_ = self.made("FILTER", f" FILTER (WHERE {self.condition(scope, (), deep)})")
        argument = self.expression(type_, scope, (), depth if self.chance(15) else 0)
        match type_:
            case "int" if self.chance(30):
                return f"count(*){filter_}"
            case "int" if self.chance(35):
                return f"count({distinct}{self.expression(self.one(EXACT), scope, (), 0)}){filter_}"
            case "int" if self.chance(50):
                return self.made(f"sum({distinct}…)", f"CAST(sum({distinct}{argument}){filter_} AS bigint)")
            case "int" if self.chance(12):
                collected = f"{self.collected(self.one(EXACT), scope)}{filter_}"
                return self.made(f"array_agg{filter_ and ' FILTER'}", f"coalesce(array_length({collected}, 1), 0)")
            case "int" if self.chance(10):
                return f"{self.one(('bit_and', 'bit_or', 'bit_xor'))}({argument}){filter_}"
            case "num" if self.chance(60):
                return self.made(f"sum({distinct}…)", f"CAST(sum({distinct}{argument}){filter_} AS numeric(20,2))")
            case "bool":
                return f"{self.one(('bool_and', 'bool_or'))}({argument}){filter_}"
            case "text" if self.chance(30):
                order = argument if distinct else f"{self.whole(scope)}, {argument}"
                found = f"string_agg({distinct}{argument}, ',' ORDER BY {order}){filter_}"
                return self.made(f"string_agg({distinct}…)", found)
            case "int" | "num" | "text" if self.chance(20):
                descending = self.one(("", " DESC"))
                fraction = self.one((0, 0.3, 0.5, 1))
                found = f"percentile_disc({fraction}) WITHIN GROUP (ORDER BY {argument}{descending}){filter_}"
                return self.made("percentile_disc", found)
            case _:
                return f"{self.one(('min', 'max'))}({argument}){filter_}"

    def collected(self, type_: Type, scope: Scope) -> str:
        return f"array_agg({self.own(type_, scope)} ORDER BY {self.whole(scope)})"

    def last(self, scope: Scope) -> tuple[Type, str]:
        """Return an aggregate that only the outermost query may output, and its type."""
        if self.chance(35):
            return "list", self.made("array_agg", self.collected(self.one(EXACT), scope))
        argument = self.expression(self.one(("int", "num")), scope, (), 0)
        if self.chance(25):
            order = f"ORDER BY CAST({argument} AS double precision)"
            return "mean", self.made("percentile_cont", f"percentile_cont(0.3) WITHIN GROUP ({order})")
        return "mean", self.made("means", f"{self.one(('avg', 'avg', 'stddev_samp', 'var_pop'))}({argument})")

    # --- windows -----------------------------------------------------------------------------------------------------

    def window(self, type_: Type, scope: Scope) -> str:
        """Return a window over rows ordered by all their columns, or over groups of peers."""
        partition = f"PARTITION BY {', '.join(each.text for each in self.some(scope, 2))} " if self.chance(75) else ""
        order = f"{partition}ORDER BY {self.whole(scope)}"
        frame = ""
        if self.chance(60):
            frame = self.made("window: frame", f" {self.one(_FRAMES)}")
            if self.chance(20):
                frame = self.made("window: EXCLUDE", f"{frame} EXCLUDE {self.one(_EXCLUDED)}")
        argument = self.expression(type_, scope, (), 0)
        match self.random.randrange(5), type_:
            case 0, "int":
                function = self.one(("row_number()", "row_number()", "ntile(2)"))
                return self.made("window: number", f"{function} OVER ({order})")
            case ((0 | 1), _) if type_ != "int" or self.chance(50):
                function = f"{self.one(('lag', 'lead'))}({argument}{self.one(('', ', 1', ', 2'))})"
                return self.made("window: lag", f"{function} OVER ({order})")
            case ((2 | 3 | 4), _) if self.chance(40):
                functions = (f"first_value({argument})", f"last_value({argument})", f"nth_value({argument}, 2)")
                return self.made("window: value of a frame", f"{self.one(functions)} OVER ({order}{frame})")
            case _:
                found = self.windowed_aggregate(type_, argument, scope, order + frame)
                return found or self.of_peers(type_, scope, partition)

    def windowed_aggregate(self, type_: Type, argument: str, scope: Scope, over: str) -> str:
        filter_ = ""
        if self.chance(15):
            filter_ = self.made("window: FILTER", f" FILTER (WHERE {self.condition(scope, (), 0)})")
        self.forms["window: aggregate"] += 1
        match type_:
            case "int":
                if self.chance(50):
                    return f"count({argument}){filter_} OVER ({over})"
                return f"CAST(sum({argument}){filter_} OVER ({over}) AS bigint)"
            case "bool":
                return f"{self.one(('bool_and', 'bool_or'))}({argument}){filter_} OVER ({over})"
            case _:
                return f"{self.one(('min', 'max'))}({argument}){filter_} OVER ({over})"

    def of_peers(self, type_: Type, scope: Scope, partition: str = "") -> str:
        """Return a window with the same value for all peers of its order."""
        by = self.one(scope)
        order = f"{partition}ORDER BY {by.text}{self.direction()}"
        if type_ == "int" and self.chance(50):
            return self.made("window: rank", f"{self.one(('rank', 'dense_rank'))}() OVER ({order})")
        over = partition.strip() if self.chance(30) else order
        if by.type in ("int", "num") and over == order and self.chance(40):
            over = self.made("window: RANGE by values", f"{over} RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING")
        return self.windowed_aggregate(type_, self.expression(type_, scope, (), 0), scope, over)
