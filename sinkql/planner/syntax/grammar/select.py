"""Read queries and their clauses."""

from __future__ import annotations

from collections.abc import Collection

from sinkql.parser.read.lexer import Lexeme
from sinkql.planner.syntax.grammar.expression import Expressions
from sinkql.planner.syntax.grammar.tokens import CLAUSES, NO_LABELS, RESERVED, Form

_JOINS = ("CROSS", "NATURAL", "INNER", "LEFT", "RIGHT", "FULL", "JOIN")
_NO_ALIASES = CLAUSES | RESERVED | {"SET"}
_ONE_NUMBER = "The number of rows stands after LIMIT; how many are left out before them, after OFFSET."
_ROWS = ("UPDATE", "SHARE")


def read(lexemes: list[Lexeme]) -> tuple[Form, ...]:
    """Return the forms of a query; raise MistakeError."""
    queries = _Queries(lexemes)
    queries.query()
    if queries.next.kind != "END":
        raise queries.mistake()
    return tuple(queries.forms)


def read_strings(lexemes: list[Lexeme], functions: Collection[str]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of lexemes of strings and calls of `functions` in FROM.

    Raises MistakeError.
    """
    queries = _Queries(lexemes)
    queries.functions = functions
    queries.query()
    return tuple(sorted(queries.files))


class _Queries(Expressions):
    """The reader of queries and their clauses. Large: one grammar, whose rules call each other."""

    functions: Collection[str] = ()

    def __init__(self, lexemes: list[Lexeme]) -> None:
        super().__init__(lexemes)
        self.files: set[tuple[int, int]] = set()

    def query(self) -> None:
        """Read a query."""
        if self.take("WITH"):
            self._with()
        self._combined()
        self._behind_all()

    def _with(self) -> None:
        if self.take("MUTUALLY"):
            self.expect("RECURSIVE")
            if self.take("("):
                self._limit_of_recursion()
                self.expect(")")
        else:
            self.take("RECURSIVE")
        self.list_of(self._named_query)

    def _limit_of_recursion(self) -> None:
        if self.take_any("RETURN", "ERROR"):
            self.expect("AT")
        self.expect("RECURSION", "LIMIT")
        self.take("=")
        self.expression()

    def _named_query(self) -> None:
        self.name()
        if self.take("("):
            self.list_of(self._column_of_query)
            self.expect(")")
        self.expect("AS")
        if self.take("NOT"):
            self.expect("MATERIALIZED")
        else:
            self.take("MATERIALIZED")
        self._bracketed()

    def _column_of_query(self) -> None:
        self.name()
        if not self.at_any(",", ")"):
            self.type_name()
            if self.take("NOT"):
                self.expect("NULL")

    def _bracketed(self) -> None:
        self.expect("(")
        self.query()
        self.expect(")")

    def _combined(self) -> None:
        """Read SELECTs, combined by UNION and other set operations."""
        self._one()
        while self.take_any("UNION", "EXCEPT", "INTERSECT"):
            self.take_any("ALL", "DISTINCT")
            self._one()

    def _one(self) -> None:
        if self.at("("):
            self._bracketed()
        elif self.take("SELECT"):
            self._select()
        elif self.take("VALUES"):
            self.list_of(self._values)
        elif self.take("TABLE"):
            self.path("a relation")
        elif self.at("SHOW"):
            hint = "Select from a system relation such as mz_tables."
            raise self.foreign("SQ2215", "SHOW in a query is not supported yet", hint)
        elif self.at_any("INSERT", "UPDATE", "DELETE", "MERGE"):
            raise self.foreign("SQ2201", f"expected SELECT, found {self.next.keyword}")
        else:
            raise self.mistake("SELECT")

    def _values(self) -> None:
        self.expect("(")
        self.list_of(self.expression)
        self.expect(")")

    def _select(self) -> None:
        all_ = self.take("ALL")
        distinct = not all_ and self.take("DISTINCT")
        if distinct and self.take("ON"):
            self._values()
        empty = self.next.kind in ("END", ")") or self.at("FROM")
        if distinct or all_ or not empty:  # the planner reports an empty select list
            self.list_of(self._selected)
        if self.take("FROM"):
            self.list_of(self._relation)
        if self.take("WHERE"):
            self.expression()
        if self.take("GROUP"):
            self.expect("BY")
            if not (self.at("ALL") and self.ahead().kind not in ("(", ".")):
                self.take_any("DISTINCT", "ALL")
                self.list_of(self._group)
            else:
                self.place += 1
            if self.take("WITH") and not self.take_any("ROLLUP", "CUBE", "TOTALS"):
                raise self.mistake("ROLLUP")
        if self.take("HAVING"):
            self.expression()
        if self.take("WINDOW"):
            self.list_of(self._window)
        if self.take("QUALIFY"):
            self.expression()
        if self.take("OPTIONS"):
            self.expect("(")
            self.list_of(self._option)
            self.expect(")")

    def _selected(self) -> None:
        start = self.next.start
        if self.take("*"):
            self._but()
            return
        self.expression()
        if self.take("AS"):
            self.any_name()
            self.form("label", start)
        elif self.next.kind == "QUOTED" or (self.next.kind == "WORD" and self.next.keyword not in NO_LABELS):
            self.place += 1
            self.form("label", start)

    def _but(self) -> None:
        """Read the EXCEPT (…) of other SQL dialects, which is refused by name."""
        if self.at("EXCEPT", "(") and self.ahead(2).keyword not in ("SELECT", "VALUES", "WITH", "TABLE"):
            self.place += 1
            self.names()

    def _group(self) -> None:
        if self.take("GROUPING", "SETS"):
            self.expect("(")
            self.list_of(self._group)
            self.expect(")")
        elif self.at_any("ROLLUP", "CUBE") and self.ahead().kind == "(":
            self.place += 1
            self._values()
        elif self.at("(") and self.ahead().kind == ")":
            self.place += 2
        else:
            self.expression()

    def _window(self) -> None:
        self.name()
        self.expect("AS")
        self.window()

    def _option(self) -> None:
        while self.next.kind == "WORD":
            self.place += 1
        self.take("=")
        self.expression()

    def _behind_all(self) -> None:
        if self.at("ORDER"):
            self.order()
        seen: set[str] = set()
        while (word := self.next.keyword) in ("LIMIT", "OFFSET", "FETCH") and word not in seen:
            seen.add(word)
            self.place += 1
            self._many(word)
        while self.take("FOR"):
            if self.take("NO"):
                self.expect("KEY")
            self.take("KEY")
            if not self.take_any(*_ROWS):
                raise self.mistake("UPDATE or SHARE")
            if self.take("OF"):
                self.list_of(self.path)
            self.take("NOWAIT") or self.take("SKIP", "LOCKED")
        if self.take("AS"):
            self.expect("OF")
            self.take("AT", "LEAST")
            self.expression()

    def _many(self, word: str) -> None:
        match word:
            case "LIMIT":
                if not self.take("ALL"):
                    self.expression()
                    if self.at(","):
                        raise self.foreign("SQ2201", "LIMIT takes one number", _ONE_NUMBER)
            case "OFFSET":
                self.expression()
                self.take_any("ROW", "ROWS")
            case _:
                if not self.take_any("FIRST", "NEXT"):
                    raise self.mistake("FIRST or NEXT")
                if not self.at_any("ROW", "ROWS"):
                    self.expression()
                if not self.take_any("ROW", "ROWS"):
                    raise self.mistake("ROWS")
                if not self.at_any("ONLY", "WITH"):
                    raise self.mistake("ONLY")
                if not self.take("ONLY"):
                    self.expect("WITH", "TIES")

    def _relation(self) -> bool:
        """Read a relation; return whether it is joined with others."""
        nested = self.at("(")
        self._related()
        joined = nested and self.lexemes[self.place - 1].kind == ")"
        while self.at_any(*_JOINS):
            self._join()
            joined = True
        return joined

    def _join(self) -> None:
        start = self.next.start
        self.form(" ".join([*self._joining(), "JOIN"]), start)

    def _joining(self) -> list[str]:
        """Read a JOIN, and return the words of its kind."""
        if self.take("CROSS"):
            self.expect("JOIN")
            self._related()
            return ["CROSS"]
        natural = ["NATURAL"] if self.take("NATURAL") else []
        side = [self.next.keyword] if self.at_any("LEFT", "RIGHT", "FULL") else []
        if self.take_any("LEFT", "RIGHT", "FULL"):
            self.take("OUTER")
        else:
            self.take("INNER")
        self.expect("JOIN")
        self._related()
        if natural:
            return [*natural, *side]
        while self.at_any(*_JOINS):
            self._join()
        if self.take("ON"):
            self.expression()
        elif self.take("USING"):
            self.names()
            if self.take("AS"):
                self.name()
            side = [*side, "USING"]
        else:
            raise self.mistake("ON or USING")
        return side

    def _related(self) -> None:
        lateral, function = self.take("LATERAL"), False
        if self.at("("):
            self._in_parentheses()
        elif self.next.kind == "STRING":
            self.place += 1
            self.files.add((self.place - 1, self.place))
        elif self.take("ROWS", "FROM"):
            self.expect("(")
            self.list_of(self.expression)
            self.expect(")")
            self._ordinality()
        else:
            function = self._named_relation()
            if lateral and not function:
                raise self.mistake('"("')
        self._alias(function=function)

    def _in_parentheses(self) -> None:
        """Read a query or joined relations in parentheses."""
        self.expect("(")
        if self._query_ahead():
            self.query()
        else:
            alone = self.named() and self.ahead().kind == ")"  # the planner gives the hint
            if not self._relation() and not alone:
                raise self.mistake("JOIN")
        self.expect(")")

    def _named_relation(self) -> bool:
        """Read a relation's name or a function call; return whether it is a call."""
        self.take("ONLY")
        start = self.place
        self.path("a relation")
        if self.take("("):
            self._arguments()
            self.expect(")")
            if self.lexemes[start].kind in ("WORD", "QUOTED") and self.lexemes[start].value in self.functions:
                self.files.add((start, self.place))
            self._ordinality()
            return True
        self.take("*")
        return False

    def _ordinality(self) -> None:
        if self.take("WITH"):
            self.expect("ORDINALITY")

    def _alias(self, *, function: bool) -> None:
        if self.take("AS"):
            if not (function and self.at("(")):
                self.name()
        elif self.next.kind == "QUOTED" or (self.next.kind == "WORD" and self.next.keyword not in _NO_ALIASES):
            self.place += 1
        elif not self.at("TABLESAMPLE"):
            return
        if self.take("("):
            self.list_of(self._column_of_query if function else self.name)
            self.expect(")")
        self._sample()

    def _sample(self) -> None:
        if self.take("TABLESAMPLE"):
            self.path()
            self._values()
            if self.take("REPEATABLE"):
                self._values()
