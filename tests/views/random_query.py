"""A seed → a query over four relations, typed so that nearly all are planned, whose rows SQL leaves no choice about.

What SinkQL and DuckDB have different rules for does not occur: quotients and means stand at the end alone, texts are
ordered by bytes, rows are numbered by all their columns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal, TypeVar

from views.harness import Relation
from views.rows import Row

_T = TypeVar("_T")
Type = Literal["int", "num", "text", "bool", "date", "mean"]

RELATIONS = (
    Relation(
        "a",
        {"id": "int NOT NULL", "g": "int", "x": "bigint", "n": "numeric(10,2)", "t": "text", "d": "date"},
        ("id",),
    ),
    Relation("b", {"g": "int", "x": "bigint", "n": "numeric(10,2)", "t": "text", "f": "boolean"}),
    Relation("c", {"g": "int NOT NULL", "x": "bigint", "t": "text"}, kind="append"),
    Relation("u", {"id": "int NOT NULL", "g": "int", "x": "bigint", "t": "text", "d": "date"}, ("id",), "upsert"),
)
_TYPES: dict[str, Type] = {"g": "int", "id": "int", "x": "int", "n": "num", "t": "text", "f": "bool", "d": "date"}
_VALUES: dict[str, tuple[object, ...]] = {
    "g": (0, 1, 2, 3),
    "x": (-2, 0, 1, 1, 2, 3, 7),
    "n": (Decimal("-1.50"), Decimal(0), Decimal(1), Decimal("2.25"), Decimal(3)),
    "t": ("", "a", "B", "ab", "ä", "b%"),
    "f": (True, False),
    "d": (date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1)),
}
_LITERALS: dict[Type, tuple[str, ...]] = {
    "int": ("0", "1", "2", "3", "-1"),
    "num": ("0.00", "1.50", "2.25", "-1.50"),
    "text": ("'a'", "'B'", "'ab'", "''"),
    "bool": ("true", "false"),
    "date": ("date '2024-02-29'", "date '2024-03-01'"),
}
_COMPARISONS = ("=", "=", "=", "<>", "<", "<=", ">", ">=")
_EXACT: tuple[Type, ...] = ("int", "int", "int", "num", "text", "bool", "date")


@dataclass(frozen=True)
class Column:
    """A column as an expression names it."""

    text: str
    type: Type


@dataclass(frozen=True)
class Query:
    """A query, and the types of its columns, which are called c0, c1 and so on."""

    sql: str
    types: tuple[Type, ...]


def row(relation: Relation, random_: random.Random) -> Row:
    """Return a row of a relation; of a key there are a dozen."""
    found: list[object] = []
    for name, type_ in relation.columns.items():
        if name == "id":
            found.append(random_.randrange(12))
        elif "NOT NULL" not in type_ and not random_.randrange(5):
            found.append(None)
        else:
            found.append(random_.choice(_VALUES[name]))
    return tuple(found)


def query(random_: random.Random, depth: int = 2) -> Query:
    """Return a query with subqueries of that depth."""
    return _Generator(random_).query(depth, outer=(), top=True)


class _Generator:
    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.names = 0
        self.named: dict[str, Query] = {}
        self.room = 9
        """How many more relations may be read."""

    # --- chance ------------------------------------------------------------------------------------------------------

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def one(self, given: Sequence[_T]) -> _T:
        return self.random.choice(given)

    def some(self, given: Sequence[_T], most: int) -> list[_T]:
        """Return one to so many, in any order."""
        return self.random.sample(given, self.random.randint(1, min(most, len(given))))

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    # --- queries -----------------------------------------------------------------------------------------------------

    def query(
        self, depth: int, *, outer: Sequence[Column], types: Sequence[Type] | None = None, top: bool = False
    ) -> Query:
        if depth and self.room > 2 and self.chance(14):
            return self.combined(depth, outer, types)
        if depth and self.room > 3 and not outer and self.chance(25 if top else 5):
            return self.with_(depth, types, top=top)
        return self.select(depth, outer, types, top=top)

    def combined(self, depth: int, outer: Sequence[Column], types: Sequence[Type] | None) -> Query:
        left = self.query(depth - 1, outer=outer, types=types or self.types())
        right = self.query(depth - 1, outer=outer, types=left.types)
        word = self.one(("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        return Query(f"({left.sql}) {word} ({right.sql})", left.types)

    def with_(self, depth: int, types: Sequence[Type] | None, *, top: bool) -> Query:
        name = self.name("w")
        inner = self.query(depth - 1, outer=())
        self.named[name] = inner
        outer = self.select(depth - 1, (), types, top=top, reading=(name, name))
        del self.named[name]
        return Query(f"WITH {name} AS ({inner.sql}) {outer.sql}", outer.types)

    def types(self) -> list[Type]:
        return [self.one(_EXACT) for _ in range(self.random.randint(1, 3))]

    def select(
        self,
        depth: int,
        outer: Sequence[Column],
        types: Sequence[Type] | None = None,
        *,
        top: bool = False,
        reading: Sequence[str] = (),
    ) -> Query:
        below, scope, conditions = self.from_(depth, outer, reading)
        if outer and self.chance(85):
            conditions.append(self.correlation(scope, outer))
        if self.chance(35):
            conditions.append(self.condition(scope, outer, depth))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        wanted = tuple(types or self.types())
        from_ = f"FROM {below}{where}"
        forms: tuple[tuple[int, Callable[[], Query]], ...] = (
            (40, lambda: self.plain(from_, scope, outer, wanted, depth)),
            (30, lambda: self.grouped(from_, scope, outer, wanted, depth, top=top and types is None)),
            (10, lambda: self.windowed(from_, scope, wanted)),
            (10, lambda: self.first(from_, scope, outer, wanted, depth)),
            (6, lambda: self.ranked(from_, scope, wanted)),
            (5, lambda: self.distinct_on(from_, scope, wanted)),
        )
        ((_, made),) = self.random.choices(forms, [weight for weight, _ in forms])
        return made()

    def plain(
        self, from_: str, scope: Sequence[Column], outer: Sequence[Column], types: tuple[Type, ...], depth: int
    ) -> Query:
        items = self.items([self.expression(type_, scope, outer, depth) for type_ in types])
        return Query(f"SELECT {'DISTINCT ' if self.chance(15) else ''}{items} {from_}", types)

    def first(
        self, from_: str, scope: Sequence[Column], outer: Sequence[Column], types: tuple[Type, ...], depth: int
    ) -> Query:
        """The first rows, ordered by all columns of the result."""
        items = self.items([self.expression(type_, scope, outer, depth) for type_ in types])
        places = ", ".join(
            f"{place + 1}{self.direction()}" for place in self.random.sample(range(len(types)), len(types))
        )
        offset = f" OFFSET {self.random.randrange(3)}" if self.chance(30) else ""
        return Query(f"SELECT {items} {from_} ORDER BY {places} LIMIT {self.random.randint(1, 5)}{offset}", types)

    def direction(self) -> str:
        return self.one(("", "", " DESC", " DESC NULLS LAST", " NULLS FIRST"))

    def items(self, expressions: Sequence[str]) -> str:
        return ", ".join(f"{each} AS c{place}" for place, each in enumerate(expressions))

    # --- FROM --------------------------------------------------------------------------------------------------------

    def from_(self, depth: int, outer: Sequence[Column], reading: Sequence[str]) -> tuple[str, list[Column], list[str]]:
        """Return the relations, their columns, and what WHERE has to say of them."""
        many = max(len(reading), self.random.choices((1, 2, 3, 4), (35, 40, 18, 7))[0])
        many = max(1, min(many, self.room))
        text, scope = self.relation(depth, outer, reading[0] if reading else None)
        conditions: list[str] = []
        crossed = False
        for place in range(1, many):
            if depth and self.chance(7):
                text, scope = self.lateral(text, scope, depth)
                continue
            wanted = reading[place] if place < len(reading) else None
            if many == 2 and wanted is None and self.chance(12) and (merged := self.merged(text, scope)):
                return (*merged, conditions)
            other, columns = self.relation(depth, outer, wanted)
            both = [*scope, *columns]
            word = self.random.choices(
                ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", ",", "CROSS JOIN"), (35, 25, 10, 12, 12, 6)
            )[0]
            condition = self.equality(scope, columns)
            if word == "CROSS JOIN" and not crossed and place == 1:
                crossed = True
                text = f"{text} CROSS JOIN {other}"
            elif word == "," and place == many - 1:
                text = f"{text}, {other}"
                conditions.append(condition)
            else:
                word = word if word.endswith(" JOIN") and word != "CROSS JOIN" else "JOIN"
                if place == 1 and not crossed and self.chance(8):
                    crossed, condition = True, self.comparison(scope, columns)
                elif self.chance(30):
                    deep = depth if word == "JOIN" and self.chance(25) else 0  # DuckDB has no others
                    condition = f"{condition} AND {self.condition(both, (), deep)}"
                text = f"{text} {word} {other} ON {condition}"
            scope = both
        return text, scope, conditions

    def relation(self, depth: int, outer: Sequence[Column], wanted: str | None) -> tuple[str, list[Column]]:
        alias = self.name("r")
        self.room -= 1
        if wanted is None and self.named and self.chance(40):
            wanted = self.one(list(self.named))
        if wanted is not None:
            types = self.named[wanted].types
            return f"{wanted} {alias}", [Column(f"{alias}.c{place}", type_) for place, type_ in enumerate(types)]
        if depth and self.room > 1 and self.chance(22):
            found = self.query(depth - 1, outer=())
            return f"({found.sql}) {alias}", [
                Column(f"{alias}.c{place}", type_) for place, type_ in enumerate(found.types)
            ]
        if self.chance(4):
            return f"(VALUES (1, 'a'), (2, NULL), (NULL, 'ab')) {alias} (x, t)", [
                Column(f"{alias}.x", "int"), Column(f"{alias}.t", "text"),
            ]  # fmt: skip
        if self.chance(4):
            return f"(SELECT g.x FROM generate_series(0, 3) g (x)) {alias}", [Column(f"{alias}.x", "int")]
        table = self.one(RELATIONS)
        return f"{table.name} {alias}", [Column(f"{alias}.{name}", _TYPES[name]) for name in table.columns]

    def merged(self, text: str, scope: Sequence[Column]) -> tuple[str, list[Column]] | None:
        """Return a join by USING, or a NATURAL one, of two tables."""
        table, _, alias = text.partition(" ")
        known = {each.name: each for each in RELATIONS}
        if table not in known:
            return None
        other, name = self.one(RELATIONS), self.name("r")
        self.room -= 1
        common = [each for each in known[table].columns if each in other.columns]
        natural = self.chance(30)
        used = common if natural else self.some(common, 2)
        kind = self.one(("", "LEFT ", "FULL ", "RIGHT "))
        join = f"NATURAL {kind}JOIN" if natural else f"{kind}JOIN"
        using = "" if natural else f" USING ({', '.join(used)})"
        columns = [Column(each, _TYPES[each]) for each in used]
        columns += [each for each in scope if each.text.partition(".")[2] not in used]
        columns += [Column(f"{name}.{each}", _TYPES[each]) for each in other.columns if each not in used]
        return f"{table} {alias} {join} {other.name} {name}{using}", columns

    def lateral(self, text: str, scope: list[Column], depth: int) -> tuple[str, list[Column]]:
        alias = self.name("r")
        found = self.select(depth - 1, scope)
        columns = [Column(f"{alias}.c{place}", type_) for place, type_ in enumerate(found.types)]
        if self.chance(50):
            return f"{text} CROSS JOIN LATERAL ({found.sql}) {alias}", [*scope, *columns]
        return f"{text} LEFT JOIN LATERAL ({found.sql}) {alias} ON true", [*scope, *columns]

    def equality(self, left: Sequence[Column], right: Sequence[Column]) -> str:
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

    def comparison(self, left: Sequence[Column], right: Sequence[Column]) -> str:
        types = {each.type for each in left} & {each.type for each in right}
        if not types:
            return self.one(("true", "1 = 1"))
        type_ = self.one(sorted(types))
        pair = [self.one([each for each in side if each.type == type_]).text for side in (left, right)]
        return self.one(("<", ">", "<=", "<>")).join(f" {each} " for each in pair).strip()

    def correlation(self, scope: Sequence[Column], outer: Sequence[Column]) -> str:
        return self.equality(scope, outer) if self.chance(75) else self.comparison(scope, outer)

    # --- forms of SELECT ---------------------------------------------------------------------------------------------

    def grouped(
        self,
        from_: str,
        scope: Sequence[Column],
        outer: Sequence[Column],
        types: tuple[Type, ...],
        depth: int,
        *,
        top: bool,
    ) -> Query:
        keys = self.some(list(scope), 3) if self.chance(80) else []
        found: list[str] = []
        for type_ in types:
            known = [each.text for each in keys if each.type == type_]
            found.append(self.one(known) if known and self.chance(60) else self.aggregate(type_, scope, depth))
        if top and self.chance(30):
            found.append(self.mean(scope))
            types = (*types, "mean")
        by = ", ".join(each.text for each in keys)
        if len(keys) > 1 and self.chance(20):
            sets = f"({by}), ({keys[0].text}), ()"
            by = self.one((f"ROLLUP ({by})", f"CUBE ({by})", f"GROUPING SETS ({sets})"))
        group = f" GROUP BY {by}" if keys else ""
        having = ""
        if self.chance(25):
            left = self.aggregate("int", scope, 0)
            right = (
                self.scalar("int", (), depth)
                if depth and self.room > 1 and self.chance(30)
                else self.one(_LITERALS["int"])
            )
            having = f" HAVING {left} {self.one(_COMPARISONS)} {right}"
        return Query(f"SELECT {self.items(found)} {from_}{group}{having}", types)

    def aggregate(self, type_: Type, scope: Sequence[Column], depth: int) -> str:
        distinct = "DISTINCT " if self.chance(15) else ""
        filter_ = f" FILTER (WHERE {self.condition(scope, (), 0)})" if self.chance(25) else ""
        argument = self.expression(type_, scope, (), 0)
        match type_:
            case "int" if self.chance(35):
                return f"count(*){filter_}"
            case "int" if self.chance(40):
                return f"count({distinct}{self.expression(self.one(_EXACT), scope, (), 0)}){filter_}"
            case "int" if self.chance(50):
                return f"CAST(sum({distinct}{argument}){filter_} AS bigint)"
            case "num" if self.chance(60):
                return f"CAST(sum({distinct}{argument}){filter_} AS numeric(20,2))"
            case "bool":
                return f"{self.one(('bool_and', 'bool_or'))}({argument}){filter_}"
            case "text" if self.chance(20):
                return f"string_agg({argument}, ',' ORDER BY {argument}){filter_}"
            case _:
                return f"{self.one(('min', 'max'))}({argument}){filter_}"

    def mean(self, scope: Sequence[Column]) -> str:
        argument = self.expression(self.one(("int", "num")), scope, (), 0)
        return f"{self.one(('avg', 'avg', 'stddev_samp', 'var_pop'))}({argument})"

    def windowed(self, from_: str, scope: Sequence[Column], types: tuple[Type, ...]) -> Query:
        """One window: equal rows are told apart by nothing, so that two would not number them in the same order."""
        found = [self.expression(type_, scope, (), 0) for type_ in types]
        place = self.random.randrange(len(types))
        found[place] = self.window(types[place], scope)
        return Query(f"SELECT {self.items(found)} {from_}", types)

    def window(self, type_: Type, scope: Sequence[Column]) -> str:
        partition = f"PARTITION BY {', '.join(each.text for each in self.some(scope, 2))} " if self.chance(75) else ""
        order = f"ORDER BY {self.whole(scope)}"
        argument = self.expression(type_, scope, (), 0)
        frame = self.one(
            (
                "", "", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
                "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            )
        )  # fmt: skip
        over = f"OVER ({partition}{order} {frame})".replace(" )", ")")
        plain = f"OVER ({partition}{order})"
        part = self.one(scope).text
        loose = f"OVER ({partition}ORDER BY {part}{self.direction()})"
        match self.random.randrange(5), type_:
            case 0, "int":
                return f"row_number() {plain}"
            case 1, "int":
                return f"{self.one(('rank', 'dense_rank'))}() {loose}"
            case 2, "int":
                return f"count({argument}) {self.one((over, loose))}"
            case 3, "int":
                return f"CAST(sum({argument}) {self.one((over, loose))} AS bigint)"
            case ((0 | 1), _):
                return f"{self.one(('lag', 'lead'))}({argument}{self.one(('', ', 1', ', 2'))}) {plain}"
            case ((2 | 3), _) if type_ != "bool":
                return f"{self.one(('min', 'max'))}({argument}) {self.one((over, loose))}"
            case _:
                return f"{self.one(('first_value', 'last_value'))}({argument}) {over}"

    def whole(self, scope: Sequence[Column]) -> str:
        return ", ".join(f"{each.text}{self.direction()}" for each in self.random.sample(list(scope), len(scope)))

    def ranked(self, from_: str, scope: Sequence[Column], types: tuple[Type, ...]) -> Query:
        """The first rows of each partition by their number."""
        items = self.items([self.expression(type_, scope, (), 0) for type_ in types])
        partition = ", ".join(each.text for each in self.some(scope, 2))
        function, order = "row_number", self.whole(scope)
        if self.chance(40):
            function, order = self.one(("rank", "dense_rank")), f"{self.one(scope).text}{self.direction()}"
        alias, number = self.name("r"), self.name("n")
        inner = f"SELECT {items}, {function}() OVER (PARTITION BY {partition} ORDER BY {order}) AS {number} {from_}"
        shown = self.items([f"{alias}.c{place}" for place in range(len(types))])
        limit = f"{alias}.{number} {self.one(('<= 1', '<= 2', '< 4', '= 1', '= 2'))}"
        return Query(f"SELECT {shown} FROM ({inner}) {alias} WHERE {limit}", types)

    def distinct_on(self, from_: str, scope: Sequence[Column], types: tuple[Type, ...]) -> Query:
        keys = self.some(scope, 2)
        order = ", ".join(
            [*(each.text for each in keys), self.whole([each for each in scope if each not in keys] or keys)]
        )
        items = self.items([self.expression(type_, scope, (), 0) for type_ in types])
        on = ", ".join(each.text for each in keys)
        return Query(f"SELECT DISTINCT ON ({on}) {items} {from_} ORDER BY {order}", types)

    # --- expressions -------------------------------------------------------------------------------------------------

    def expression(self, type_: Type, scope: Sequence[Column], outer: Sequence[Column], depth: int) -> str:
        if depth and self.room > 1 and self.chance(7):
            if type_ == "bool":
                return f"({self.subquery_condition(scope, depth)})"
            return self.scalar(type_, scope, depth)
        columns = [each.text for each in scope if each.type == type_]
        if outer and self.chance(6):
            columns = [each.text for each in outer if each.type == type_] or columns
        if columns and self.chance(65):
            return self.one(columns)
        if self.chance(25):
            return self.one(_LITERALS[type_])
        return self.computed(type_, scope, outer, depth)

    def computed(self, type_: Type, scope: Sequence[Column], outer: Sequence[Column], depth: int) -> str:
        def own(wanted: Type = type_) -> str:
            columns = [each.text for each in scope if each.type == wanted]
            return self.one(columns) if columns and self.chance(80) else self.one(_LITERALS[wanted])

        literal = self.one(_LITERALS[type_])
        forms = [
            f"coalesce({own()}, {literal})",
            f"CASE WHEN {self.condition(scope, outer, 0)} THEN {own()} ELSE {own()} END",
            f"nullif({own()}, {literal})",
        ]
        match type_:
            case "int":
                forms += [f"({own()} + {own()})", f"({own()} - {own()})", f"({own()} * 2)", f"({own()} % 3)"]
                forms += [f"({own()} / 2)", f"abs({own()})", f"length({own('text')})"]
            case "num":
                forms += [f"({own()} + {own()})", f"({own()} - {own()})"]
            case "text":
                forms += [f"({own()} || {own()})", f"substr({own()}, 1, 1)"]
            case "bool":
                forms = [f"({self.condition(scope, outer, 0)})"]
        return self.one(forms)

    def scalar(self, type_: Type, scope: Sequence[Column], depth: int) -> str:
        """A subquery of one row, correlated with these columns or not."""
        outer = scope if self.chance(70) else ()
        if self.chance(20) and type_ in ("int", "text", "date"):
            ints = [each.text for each in outer if each.type == "int"]
            key = self.one(ints) if ints else "1"
            table, alias = self.one([each for each in RELATIONS if each.key]), self.name("r")
            columns = [f"{alias}.{name}" for name in table.columns if _TYPES[name] == type_]
            self.room -= 1
            return f"(SELECT {self.one(columns)} FROM {table.name} {alias} WHERE {alias}.id = {key})"
        below, inner, conditions = self.from_(0 if self.chance(60) else depth - 1, (), ())
        if outer:
            conditions.append(self.correlation(inner, outer))
        if self.chance(30):
            conditions.append(self.condition(inner, (), depth - 1))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        if self.chance(15):
            item = self.expression(type_, inner, (), 0)
            return f"(SELECT {item} FROM {below}{where} ORDER BY 1{self.direction()} LIMIT 1)"
        return f"(SELECT {self.aggregate(type_, inner, 0)} FROM {below}{where})"

    def condition(self, scope: Sequence[Column], outer: Sequence[Column], depth: int) -> str:
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

    def simple(self, scope: Sequence[Column], outer: Sequence[Column]) -> str:
        column = self.one(scope)
        literals = _LITERALS[column.type] if column.type != "mean" else ("1",)
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
        if column.type == "text":
            forms.append(f"{column.text} {self.one(('', 'NOT '))}LIKE {self.one(('%a%', 'a_', '%', ''))!r}")
        if column.type == "bool":
            forms += [column.text, f"NOT {column.text}"]
        return self.one(forms)

    def subquery_condition(self, scope: Sequence[Column], depth: int) -> str:
        outer = scope if self.chance(65) else ()
        column = self.one(scope)
        types: tuple[Type, ...] = (column.type,)
        match self.random.randrange(6):
            case 0:
                return f"EXISTS ({self.query(depth - 1, outer=scope if self.chance(85) else ()).sql})"
            case 1:
                return f"NOT EXISTS ({self.query(depth - 1, outer=scope if self.chance(85) else ()).sql})"
            case 2:
                return f"{column.text} IN ({self.query(depth - 1, outer=outer, types=types).sql})"
            case 3:
                return f"{column.text} NOT IN ({self.query(depth - 1, outer=outer, types=types).sql})"
            case 4:
                quantifier = self.one(("ANY", "ALL"))
                found = self.query(depth - 1, outer=outer, types=types)
                return f"{column.text} {self.one(_COMPARISONS)} {quantifier} ({found.sql})"
            case _:
                return f"{column.text} {self.one(_COMPARISONS)} {self.scalar(column.type, scope, depth)}"
