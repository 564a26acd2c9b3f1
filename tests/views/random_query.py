"""Random queries over four relations, from a seed: nearly all can be planned, and SQL defines all their rows."""

from __future__ import annotations

import random
from collections.abc import Sequence

from views.random_expression import EXACT, LITERALS, Column, Expressions, Query, Scope
from views.random_relation import RELATIONS, TYPES, Type

_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", ",", "CROSS JOIN")
_SETS = ("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")


def query(random_: random.Random, depth: int = 2) -> Query:
    """Return a query with subqueries nested up to `depth`."""
    made = _Queries(random_)
    sql = made.query(depth, outer=(), top=True)
    return Query(sql, made.types, made.forms)


class _Queries(Expressions):
    def __init__(self, random_: random.Random) -> None:
        super().__init__(random_)
        self.named: dict[str, tuple[Type, ...]] = {}
        self.types: tuple[Type, ...] = ()
        """The column types of the last query that was generated."""

    # --- queries -----------------------------------------------------------------------------------------------------

    def query(self, depth: int, *, outer: Scope, types: Sequence[Type] | None = None, top: bool = False) -> str:
        if depth and self.room > 2 and self.chance(14):
            return self.combined(depth, outer, types)
        if depth and self.room > 3 and not outer and self.chance(25 if top else 5):
            return self.with_(depth, types, top=top)
        return self.select(depth, outer, types, top=top)

    def combined(self, depth: int, outer: Scope, types: Sequence[Type] | None) -> str:
        left = self.query(depth - 1, outer=outer, types=types or self.any_types())
        found = self.types
        if self.chance(10):
            right = self.values(found)
        else:
            right = f"({self.query(depth - 1, outer=outer, types=found)})"
        word = self.one(_SETS)
        tail = ""
        if self.chance(15):
            tail = self.made("LIMIT of a set operation", f" ORDER BY {self.places(found)} LIMIT {self.most()}")
        self.types = found
        return self.made(word, f"({left}) {word} {right}{tail}")

    def values(self, types: Sequence[Type]) -> str:
        rows = [[self.one((*LITERALS[each], "NULL")) for each in types] for _ in range(2)]
        rows[0] = [self.one(LITERALS[each]) for each in types]  # these determine the types
        names = ", ".join(f"c{place}" for place in range(len(types)))
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        return self.made("VALUES", f"(SELECT * FROM (VALUES {listed}) {self.name('v')} ({names}))")

    def with_(self, depth: int, types: Sequence[Type] | None, *, top: bool) -> str:
        names = [self.name("w")]
        texts = [f"{names[0]} AS ({self.query(depth - 1, outer=())})"]
        self.named[names[0]] = self.types
        if self.room > 3 and self.chance(30):
            names.append(self.name("w"))
            inner = self.select(depth - 1, (), reading=names[:1])
            texts.append(self.made("WITH of two", f"{names[1]} AS ({inner})"))
            self.named[names[1]] = self.types
        outer = self.select(depth - 1, (), types, top=top, reading=(names[0], names[-1]))
        for each in names:
            del self.named[each]
        return self.made("WITH, read twice", f"WITH {', '.join(texts)} {outer}")

    def any_types(self) -> list[Type]:
        return [self.one(EXACT) for _ in range(self.random.randint(1, 3))]

    def select(
        self,
        depth: int,
        outer: Scope,
        types: Sequence[Type] | None = None,
        *,
        top: bool = False,
        reading: Sequence[str] = (),
    ) -> str:
        below, scope, conditions = self.from_(depth, outer, reading)
        if outer and self.chance(85):
            conditions.append(self.correlation(scope, outer))
        if self.chance(35):
            conditions.append(self.condition(scope, outer, depth))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        wanted = tuple(types or self.any_types())
        from_ = f"FROM {below}{where}"
        last = top and types is None
        found = self.drawn(
            (
                (36, lambda: (self.plain(from_, scope, outer, wanted, depth), wanted)),
                (30, lambda: self.grouped(from_, scope, wanted, depth, last=last)),
                (12, lambda: (self.windowed(from_, scope, wanted), wanted)),
                (10, lambda: (self.first(from_, scope, outer, wanted, depth), wanted)),
                (8, lambda: (self.ranked(from_, scope, wanted), wanted)),
                (5, lambda: (self.distinct_on(from_, scope, wanted), wanted)),
            )
        )
        sql, self.types = found
        return sql

    def plain(self, from_: str, scope: Scope, outer: Scope, types: Sequence[Type], depth: int) -> str:
        texts = [self.expression(type_, scope, outer, depth) for type_ in types]
        if self.chance(4) and "int" in types:
            two = ", ".join(self.own("int", scope) for _ in range(2))
            texts[types.index("int")] = self.made("unnest in a list of columns", f"unnest(ARRAY[{two}])")
            return f"SELECT {self.items(texts)} {from_}"
        distinct = self.made("DISTINCT", "DISTINCT ") if self.chance(15) else ""
        return f"SELECT {distinct}{self.items(texts)} {from_}"

    def first(self, from_: str, scope: Scope, outer: Scope, types: Sequence[Type], depth: int) -> str:
        """Return a query of the first rows, ordered by all its outputs or all its input columns."""
        items = self.items([self.expression(type_, scope, outer, depth) for type_ in types])
        order = self.whole(scope) if self.chance(30) else self.places(types)
        form, limit = self.one((("LIMIT", f" LIMIT {self.most()}"), ("FETCH", f" FETCH FIRST {self.most()} ROWS ONLY")))
        if self.chance(30):
            offset = f" OFFSET {self.random.randrange(3)}"
            form, limit = ("OFFSET", offset) if self.chance(20) else (f"{form} with OFFSET", offset + limit)
        return self.made(form, f"SELECT {items} {from_} ORDER BY {order}{limit}")

    def places(self, types: Sequence[Type]) -> str:
        return ", ".join(
            f"{place + 1}{self.direction()}" for place in self.random.sample(range(len(types)), len(types))
        )

    def most(self) -> int:
        return self.random.randint(1, 5)

    def items(self, expressions: Sequence[str]) -> str:
        return ", ".join(f"{each} AS c{place}" for place, each in enumerate(expressions))

    # --- FROM --------------------------------------------------------------------------------------------------------

    def from_(self, depth: int, outer: Scope, reading: Sequence[str]) -> tuple[str, list[Column], list[str]]:
        many = max(len(reading), self.random.choices((1, 2, 3, 4), (35, 40, 18, 7))[0])
        many = max(1, min(many, self.room))
        if many > 1 and not reading and self.chance(10):
            return (*self.merged(min(many, 3)), [])
        text, scope = self.relation(depth, outer, reading[0] if reading else None)
        conditions: list[str] = []
        has_cross_join = False
        for place in range(1, many):
            if depth and self.chance(7):
                text, scope = self.lateral(text, scope, depth)
                continue
            if self.chance(5):
                text, scope = self.flattened(text, scope)
                continue
            wanted = reading[place] if place < len(reading) else None
            if wanted is None and place < many - 1 and self.room > 2 and self.chance(15):
                other, columns = self.nested(depth, outer)
            else:
                other, columns = self.relation(depth, outer, wanted or self.same(text))
            both = [*scope, *columns]
            word = self.random.choices(_JOINS, (35, 25, 10, 12, 12, 6))[0]
            condition = self.equality(scope, columns)
            if word == "CROSS JOIN" and not has_cross_join and place == 1:
                has_cross_join = True
                text = f"{text} CROSS JOIN {other}"
            elif word == "," and place == many - 1:
                text = f"{text}, {other}"
                conditions.append(condition)
            else:
                word = word if word.endswith(" JOIN") and word != "CROSS JOIN" else "JOIN"
                if place == 1 and not has_cross_join and self.chance(8):
                    has_cross_join = True
                    condition = self.made("join without equality", self.comparison(scope, columns))
                elif self.chance(30):
                    deep = depth if self.chance(25) else 0
                    of = self.one((scope, columns)) if word == "FULL JOIN" else both
                    condition = f"{condition} AND {self.condition(of, (), deep)}"
                text = f"{text} {word} {other} ON {condition}"
            self.forms[word] += 1
            scope = both
        return text, scope, conditions

    def same(self, text: str) -> str | None:
        """Return the first relation of a text for a self join; None most of the time."""
        name = text.split(" ", 1)[0]
        if name not in {each.name for each in RELATIONS} or not self.chance(15):
            return None
        return self.made("self join", name)

    def relation(self, depth: int, outer: Scope, wanted: str | None) -> tuple[str, list[Column]]:
        alias = self.name("r")
        self.room -= 1
        if wanted is None and self.named and self.chance(40):
            wanted = self.one(list(self.named))
        if wanted in self.named:
            return f"{wanted} {alias}", self.columns(alias, self.named[wanted])
        if wanted is None and depth and self.room > 1 and self.chance(22):
            inner = self.made("subquery: in FROM", self.query(depth - 1, outer=()))
            return f"({inner}) {alias}", self.columns(alias, self.types)
        if wanted is None and self.chance(4):
            found = f"(VALUES (1, 'a'), (2, NULL), (NULL, 'ab')) {alias} (x, t)"
            return self.made("VALUES", found), [Column(f"{alias}.x", "int"), Column(f"{alias}.t", "text")]
        if wanted is None and self.chance(4):
            found = f"(SELECT g.x FROM generate_series(0, 3) g (x)) {alias}"
            return self.made("generate_series", found), [Column(f"{alias}.x", "int")]
        table = next((each for each in RELATIONS if each.name == wanted), None) or self.one(RELATIONS)
        return f"{table.name} {alias}", [Column(f"{alias}.{name}", TYPES[name]) for name in table.columns]

    def columns(self, alias: str, types: Sequence[Type]) -> list[Column]:
        return [Column(f"{alias}.c{place}", type_) for place, type_ in enumerate(types)]

    def nested(self, depth: int, outer: Scope) -> tuple[str, list[Column]]:
        """Return a join in parentheses."""
        one, columns = self.relation(depth, outer, None)
        other, more = self.relation(depth, outer, None)
        word = self.one(("JOIN", "LEFT JOIN", "FULL JOIN"))
        return self.made("join in brackets", f"({one} {word} {other} ON {self.equality(columns, more)})"), [
            *columns, *more,
        ]  # fmt: skip

    def merged(self, many: int) -> tuple[str, list[Column]]:
        """Return a join of tables with USING, or a NATURAL join."""
        table, alias = self.one(RELATIONS), self.name("r")
        self.room -= many
        text, usable = f"{table.name} {alias}", list(table.columns)
        scope = [Column(f"{alias}.{name}", TYPES[name]) for name in table.columns]
        for place in range(1, many):
            other, name = self.one(RELATIONS), self.name("r")
            common = [each for each in usable if each in other.columns]
            if not common:
                continue
            natural = place == 1 and self.chance(30)
            used = common if natural else self.some(common, 2)
            kind = self.one(("", "LEFT ", "FULL ", "RIGHT "))
            join = f"NATURAL {kind}JOIN" if natural else f"{kind}JOIN"
            using = "" if natural else f" USING ({', '.join(used)})"
            self.forms["NATURAL JOIN" if natural else f"{kind}JOIN USING"] += 1
            text = f"{text} {join} {other.name} {name}{using}"
            usable = used
            plain = [each for each in other.columns if each not in used]
            columns = [each for each in scope if each.text.rpartition(".")[2] not in used and each.text not in plain]
            columns += [Column(f"{name}.{each}", TYPES[each]) for each in plain]
            scope = [*(Column(each, TYPES[each]) for each in used), *columns]
        return text, scope

    def lateral(self, text: str, scope: list[Column], depth: int) -> tuple[str, list[Column]]:
        alias = self.name("r")
        found = self.select(depth - 1, scope)
        columns = self.columns(alias, self.types)
        if self.chance(50):
            return self.made("LATERAL", f"{text} CROSS JOIN LATERAL ({found}) {alias}"), [*scope, *columns]
        return self.made("LEFT JOIN LATERAL", f"{text} LEFT JOIN LATERAL ({found}) {alias} ON true"), [
            *scope, *columns,
        ]  # fmt: skip

    def flattened(self, text: str, scope: list[Column]) -> tuple[str, list[Column]]:
        """Return a relation joined with the elements of an array from each row."""
        alias = self.name("r")
        column = Column(f"{alias}.v", "int")
        if self.chance(25):
            high = self.one([each.text for each in scope if each.type == "int"] or ["2"])
            series = f"{self.one(('', 'LATERAL '))}generate_series(0, least({high}, 3)) {alias} (v)"
            return self.made("generate_series of a row", f"{text} CROSS JOIN {series}"), [*scope, column]
        array = f"unnest(ARRAY[{', '.join(self.own('int', scope) for _ in range(2))}])"
        match self.random.randrange(3):
            case 0:
                found = f"{text} CROSS JOIN {array} WITH ORDINALITY {alias} (v, o)"
                return self.made("unnest WITH ORDINALITY", found), [*scope, column, Column(f"{alias}.o", "int")]
            case 1:
                return self.made("unnest", f"{text} CROSS JOIN {array} {alias} (v)"), [*scope, column]
            case _:
                found = f"{text} LEFT JOIN LATERAL {array} {alias} (v) ON true"
                return self.made("LEFT JOIN LATERAL unnest", found), [*scope, column]

    # --- forms of SELECT ---------------------------------------------------------------------------------------------

    def grouped(
        self, from_: str, scope: Scope, types: tuple[Type, ...], depth: int, *, last: bool
    ) -> tuple[str, tuple[Type, ...]]:
        keys = self.some(list(scope), 3) if self.chance(80) else []
        by = ", ".join(each.text for each in keys)
        sets = len(keys) > 1 and self.chance(25)
        if sets:
            by = self.made(*self.grouping_sets([each.text for each in keys]))
        found = [self.of_group(type_, keys, scope, depth, sets=sets) for type_ in types]
        if last and self.chance(30):
            type_, text = self.last(scope)
            found.append(text)
            types = (*types, type_)
        if not sets and keys and self.chance(6):
            found[0] = self.made("window over groups", self.over_groups(types[0], keys, scope)) or found[0]
        group = f" GROUP BY {by}" if keys else ""
        having = self.having(keys, scope, depth) if self.chance(25) else ""
        return f"SELECT {self.items(found)} {from_}{group}{having}", types

    def grouping_sets(self, keys: Sequence[str]) -> tuple[str, str]:
        by = ", ".join(keys)
        return self.one(
            (
                ("ROLLUP", f"ROLLUP ({by})"),
                ("CUBE", f"CUBE ({by})"),
                ("GROUPING SETS", f"GROUPING SETS (({by}), ({keys[0]}), ())"),
                ("GROUPING SETS", f"GROUPING SETS (({keys[0]}), ({keys[0]}), CUBE ({', '.join(keys[1:])}))"),
                ("keys and ROLLUP", f"{keys[0]}, ROLLUP ({', '.join(keys[1:])})"),
            )
        )

    def of_group(self, type_: Type, keys: Scope, scope: Scope, depth: int, *, sets: bool) -> str:
        known = [each.text for each in keys if each.type == type_]
        if known and self.chance(60):
            return self.one(known)
        if sets and type_ == "int" and self.chance(40):
            return self.made("grouping()", f"grouping({', '.join(each.text for each in self.some(keys, 2))})")
        if keys and depth and not sets and self.room > 1 and self.chance(8):
            return self.made("subquery: of a group", self.scalar(type_, keys, depth))
        return self.aggregate(type_, scope, depth)

    def over_groups(self, type_: Type, keys: Scope, scope: Scope) -> str:
        order = f"{self.aggregate('int', scope, 0)}{self.direction()}, {self.whole(keys)}"
        if type_ == "int" and self.chance(50):
            return f"row_number() OVER (ORDER BY {order})"
        return f"lag({self.aggregate(type_, scope, 0)}) OVER (ORDER BY {order})"

    def having(self, keys: Scope, scope: Scope, depth: int) -> str:
        left = self.aggregate("int", scope, 0)
        if depth and self.room > 1 and self.chance(45):
            if keys and self.chance(50):
                found = self.subquery_condition(keys, depth)
            else:
                found = f"{left} {self.one(('=', '<', '>=', '<>'))} {self.scalar('int', keys, depth)}"
            return self.made("subquery: in HAVING", f" HAVING {found}")
        return self.made("HAVING", f" HAVING {left} {self.one(('=', '<', '>=', '<>'))} {self.one(LITERALS['int'])}")

    def windowed(self, from_: str, scope: Scope, types: tuple[Type, ...]) -> str:
        """Return a query with one window over single rows; two windows might number equal rows differently."""
        found = [self.expression(type_, scope, (), 0) for type_ in types]
        place = self.random.randrange(len(types))
        found[place] = self.window(types[place], scope)
        if len(types) > 1 and self.chance(50):
            other = (place + 1) % len(types)
            found[other] = self.made("two windows", self.of_peers(types[other], scope))
        return f"SELECT {self.items(found)} {from_}"

    def ranked(self, from_: str, scope: Scope, types: tuple[Type, ...]) -> str:
        """Return the first rows of each partition by their number, which the query may output."""
        texts = [self.expression(type_, scope, (), 0) for type_ in types]
        partition = f"PARTITION BY {', '.join(each.text for each in self.some(scope, 2))} " if self.chance(85) else ""
        function, order = "row_number", self.whole(scope)
        if self.chance(50):
            function, order = self.one(("rank", "dense_rank")), f"{self.one(scope).text}{self.direction()}"
        alias, number = self.name("r"), self.name("n")
        over = f"{function}() OVER ({partition}ORDER BY {order})"
        shown = [f"{alias}.c{place}" for place in range(len(types))]
        if "int" in types and self.chance(30):
            shown[types.index("int")] = self.made("top-k with its number", f"{alias}.{number}")
        within = self.one(("<= 1", "<= 2", "< 4", "= 1", "= 2", "BETWEEN 2 AND 3"))
        if self.chance(30):
            return self.made("QUALIFY", f"SELECT {self.items(texts)} {from_} QUALIFY {over} {within}")
        inner = f"SELECT {self.items(texts)}, {over} AS {number} {from_}"
        limit = f"{alias}.{number} {within}"
        return self.made(f"top-k of {function}", f"SELECT {self.items(shown)} FROM ({inner}) {alias} WHERE {limit}")

    def distinct_on(self, from_: str, scope: Scope, types: tuple[Type, ...]) -> str:
        keys = self.some(scope, 2)
        order = ", ".join(
            [*(each.text for each in keys), self.whole([each for each in scope if each not in keys] or keys)]
        )
        items = self.items([self.expression(type_, scope, (), 0) for type_ in types])
        on = ", ".join(each.text for each in keys)
        return self.made("DISTINCT ON", f"SELECT DISTINCT ON ({on}) {items} {from_} ORDER BY {order}")
