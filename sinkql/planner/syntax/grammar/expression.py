"""Read expressions of a query, by the precedence of operators in Postgres."""

from __future__ import annotations

from sinkql.planner.syntax.grammar import tokens
from sinkql.planner.syntax.grammar.special_form import ARGUMENTS, EXPRESSION, WORDS, SpecialForms
from sinkql.planner.syntax.grammar.tokens import NO_LABELS, OPERATORS, RESERVED, ForeignError
from sinkql.planner.syntax.grammar.window import TIMES

_LEVELS = {
    **dict.fromkeys(("<", ">", "=", "<=", ">=", "<>", "!="), tokens.COMPARED),
    **dict.fromkeys("+-", tokens.SUM),
    **dict.fromkeys("*/%", tokens.PRODUCT),
    "^": tokens.POWER,
}
_ALONE = (tokens.RANGE, tokens.IS)
"""Operators that need parentheses next to another operator of their level; the planner checks comparisons."""
_SAME = {"!=": "<>", "~~": "LIKE", "!~~": "LIKE", "~~*": "ILIKE", "!~~*": "ILIKE", "!~": "~", "!~*": "~*"}
"""Operators that only differ by a negation from another operator."""
_CORRECTIONS = {
    "==": "=", "=<": "<=", "=!": "<>", "!==": "<>", "^=": "<>", "<=>": "IS NOT DISTINCT FROM", "=~": "~",
    "**": "power(a, b)", "//": "/",
}  # fmt: skip
_SIGNS = frozenset("~!@#%^&|`?+-*/<>=")
_NAMES_OF_CALLS = ("LEFT", "RIGHT", "ISNULL", "NOTNULL", "LIKE", "ILIKE")
_TESTED = ("NULL", "TRUE", "FALSE", "UNKNOWN")
_TYPES_ALONE = frozenset((
    "BIGINT", "BIT", "BOOLEAN", "CHAR", "CHARACTER", "DEC", "DECIMAL", "FLOAT", "INT", "INTEGER", "INTERVAL", "NUMERIC",
    "REAL", "SMALLINT", "TIME", "TIMESTAMP", "VARCHAR",
))  # fmt: skip
"""Type names that are not function names."""


class Expressions(SpecialForms):
    """The reader of expressions, which records their forms. Large: one grammar, whose rules call each other."""

    def expression(self, least: int = tokens.OR) -> None:
        """Read an expression whose operators have at least this precedence."""
        start = self.next.start
        self._operand()
        most = tokens.SIGNED
        while True:
            level, kind = self._operator()
            if not least <= level <= most:
                return
            most = level - (level in _ALONE) if self._rest(level, kind) else tokens.SIGNED
            self.form(kind, start)
            if self.at("ESCAPE") and self._escape_ahead():
                self._escape(level, start)

    def _escape_ahead(self) -> bool:
        """Return whether an expression follows ESCAPE; otherwise ESCAPE is the name of a column."""
        behind = self.ahead()
        return behind.kind in ("STRING", "NUMBER", "PARAMETER", "(", "QUOTED") or (
            behind.kind == "WORD" and (behind.keyword == "NULL" or behind.keyword not in NO_LABELS | RESERVED)
        )

    def _escape(self, level: int, start: int) -> None:
        if level != tokens.RANGE:
            raise self.foreign("SQ2215", "ESCAPE is only allowed after LIKE")
        self.place += 1
        self.expression(tokens.RANGE + 1)
        self.form("ESCAPE", start)

    def _operand(self) -> None:
        """Read an operand with the unary operators before it."""
        start = self.next.start
        if self.take("NOT"):
            self.expression(tokens.NOT + 1)
            self.form("NOT", start)
        elif self.at_any("+", "-"):
            kind = self.next.kind
            self.place += 1
            self.expression(tokens.SIGNED)
            self.form(f"{kind}…", start)
        elif self.take("~"):
            self.expression(tokens.OTHER + 1)
            self.form("~…", start)
        else:
            opened = self.at("(")
            self._primary()
            self._suffixes(start, fields=opened)

    def _suffixes(self, start: int, *, fields: bool) -> None:
        """Read subscripts and casts after a value, and fields if the value is in parentheses."""
        while True:
            if self.take("::"):
                self.type_name()
                self.form("cast", start)
            elif self.take("["):
                self._subscript()
            elif fields and self.at(".") and self.ahead().kind in ("WORD", "QUOTED", "*"):
                self.place += 2
            else:
                return

    def _subscript(self) -> None:
        if self.next.kind == "NUMBER" and self.ahead().kind == "]":
            self.place += 2
            return
        if not self.at(":"):
            self.expression()
        if self.take(":") and not self.at("]"):
            self.expression()
        self.expect("]")

    def _operator(self) -> tuple[int, str]:
        """Return the precedence and the kind of the next operator, 0 if the next word is no operator."""
        sign = self.next.kind
        if sign[0] in _SIGNS and sign != "=>":
            if sign not in OPERATORS:
                raise self._no_operator(sign)
            behind = self.ahead()
            if sign in "=*" and behind.start == self.next.end and behind.kind[0] in _SIGNS - {"+", "-"}:
                raise self._no_operator(sign + behind.kind)
            return _LEVELS.get(sign, tokens.OTHER), _SAME.get(sign, sign)
        word = self.next.keyword
        negated = word == "NOT"
        match self.ahead().keyword if negated else word:
            case "OR" | "AND" as keyword if not negated:
                return (tokens.OR if keyword == "OR" else tokens.AND), keyword
            case "IS" | "ISNULL" | "NOTNULL" if not negated:
                return tokens.IS, "IS"
            case "BETWEEN" | "IN" | "LIKE" | "ILIKE" | "SIMILAR" as keyword:
                return tokens.RANGE, keyword
            case "OVERLAPS" if not negated:
                return tokens.RANGE, "OVERLAPS"
            case "OPERATOR" if not negated and self.ahead().kind == "(":
                return tokens.OTHER, "OPERATOR"
            case "AT" if not negated and self.ahead().keyword in ("TIME", "LOCAL"):
                return tokens.AT, "AT"
            case "COLLATE" if not negated:
                return tokens.COLLATE, "COLLATE"
        return 0, ""

    def _no_operator(self, sign: str) -> ForeignError:
        meant = _CORRECTIONS.get(sign)
        hint = f"Write {meant}." if meant else "Leave a space between operators, as in 1 - -1."
        return self.foreign("SQ2211", f"operator does not exist: {sign}", hint, length=len(sign))

    def _rest(self, level: int, kind: str) -> bool:
        """Read an operator and its right side; return whether the right side is an expression."""
        self.take("NOT")
        if kind == "IS":
            return self._read_test()
        if kind == "OPERATOR":
            self._named_operator()
            return self._right_side(level)
        self.place += 1
        match kind:
            case "BETWEEN":
                self.take_any("SYMMETRIC", "ASYMMETRIC")
                self.expression(tokens.RANGE + 1)
                self.expect("AND")
                self.expression(tokens.RANGE + 1)
            case "IN":
                self.expect("(")
                if self.at(")"):
                    raise self.foreign("SQ2201", "expected a value in IN ()")
                self._query_or_list()
                self.expect(")")
                return False
            case "LIKE" | "ILIKE" | "SIMILAR" if self.lexemes[self.place - 1].kind == "WORD":
                if kind == "SIMILAR":
                    self.expect("TO")
                return self._right_side(tokens.RANGE)
            case "AT":
                if self.take("LOCAL"):
                    return False
                self.expect("TIME", "ZONE")
                self.expression(tokens.AT + 1)
            case "COLLATE":
                self.path()
                return False
            case _:
                return self._right_side(level)
        return True

    def _read_test(self) -> bool:
        if self.take_any("ISNULL", "NOTNULL"):
            return False
        self.expect("IS")
        self.take("NOT")
        if self.take("DISTINCT"):
            self.expect("FROM")
            self.expression(tokens.IS + 1)
            return True
        if self.take("JSON"):
            self.take_any("VALUE", "ARRAY", "OBJECT", "SCALAR")
        elif not self.take_any(*_TESTED):
            raise self.foreign("SQ2215", "expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS")
        return False

    def _named_operator(self) -> None:
        """Read OPERATOR(schema.sign)."""
        self.place += 2
        while self.next.kind in ("WORD", "QUOTED"):
            self.place += 1
            self.expect(".")
        if self.next.kind not in OPERATORS:
            raise self.mistake("an operator")
        self.place += 1
        self.expect(")")

    def _right_side(self, level: int) -> bool:
        """Read the right side of an operator; return whether it is an expression, rather than ANY or ALL."""
        if level >= tokens.SUM or not self.at_any("ANY", "SOME", "ALL") or self.ahead().kind != "(":
            self.expression(level + 1)
            return True
        self.place += 2
        self._query_or_list()
        self.expect(")")
        return False

    def _query_or_list(self) -> None:
        if self._query_ahead():
            self.query()
        else:
            self.list_of(self.expression)

    def _query_ahead(self) -> bool:
        """Return whether a query is next, with or without parentheses."""
        count = 0
        while self.ahead(count).kind == "(":
            count += 1
        keyword = self.ahead(count).keyword
        if keyword in ("SELECT", "VALUES", "WITH", "SHOW"):
            return count == 0 or self._closes_as_query(count)
        return keyword == "TABLE" and count == 0 and self.ahead(1).kind in ("WORD", "QUOTED")

    def _closes_as_query(self, count: int) -> bool:
        """Return whether parentheses enclose a query as a whole, possibly followed by UNION or similar."""
        depth, index = 0, self.place
        while index < len(self.lexemes):
            kind = self.lexemes[index].kind
            depth += (kind == "(") - (kind == ")")
            index += 1
            if depth == 0:
                break
        following = self.lexemes[min(index, len(self.lexemes) - 1)]
        sets = ("UNION", "EXCEPT", "INTERSECT", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR")
        return following.kind in (")", "END") or following.keyword in sets

    def _primary(self) -> None:
        start, kind, word = self.next.start, self.next.kind, self.next.keyword
        match kind:
            case "NUMBER" | "STRING" | "HEX" | "PARAMETER":
                self.place += 1
                self.form(kind, start)
            case ":" if self.ahead().start == self.next.end:
                self.place += 1
                self.any_name()  # a variable without a value
            case "?":
                self.place += 1
            case "(":
                self._parenthesis()
            case "QUOTED":
                self._named(start)
            case "WORD" if word in WORDS:
                WORDS[word](self, start)
            case "WORD" if word in _NAMES_OF_CALLS and self.ahead().kind == "(":
                self._named(start)
            case "WORD" if word not in RESERVED:
                self._named(start)
            case _:
                raise self.mistake(EXPRESSION)

    def _parenthesis(self) -> None:
        self.expect("(")
        self._query_or_list()
        self.expect(")")

    def _named(self, start: int) -> None:
        """Read an expression that begins with a name: a column, a call, or a literal of a type."""
        if self._prefixed():
            self.form("STRING", start)
            return
        if self._typed():
            self.form("cast", start)
            return
        first = self.next.keyword
        self.place += 1
        while self.at(".") and self.ahead().kind in ("WORD", "QUOTED", "*"):
            self.place += 2
            first = ""
        star = self.lexemes[self.place - 1]
        if star.kind == "*" and self.at("*") and star.end == self.next.start:
            raise self.mistake()
        if self.at("("):
            if first in _TYPES_ALONE:
                raise self.mistake()
            special = ARGUMENTS.get(first)
            self.place += 1
            if special is not None:
                special(self)
            else:
                self._arguments()
            self.expect(")")
            self.form("call", start)
            self._call_clauses(start)

    def _prefixed(self) -> bool:
        """Read a string with a prefix that belongs to it: U&'…', N'…', B'…'."""
        word, behind = self.next, self.ahead()
        count = 2 if word.keyword == "U" and behind.kind == "&" else 1
        string = self.ahead(count)
        prefix = word.keyword in ("N", "B") if count == 1 else behind.start == word.end
        is_prefixed = prefix and string.kind == "STRING" and self.ahead(count - 1).end == string.start
        self.place += count + 1 if is_prefixed else 0
        return is_prefixed

    def _typed(self) -> bool:
        """Read a type's name followed by a string, if that is next."""
        start = self.place
        if self.next.kind == "WORD" and self.next.keyword not in RESERVED:
            self.place += 1
            first = self.lexemes[start].keyword
            if first in TIMES:
                if self.at("(") and self.ahead().kind == "NUMBER" and self.ahead(2).kind == ")":
                    self.place += 3
                self.take("WITH", "TIME", "ZONE") or self.take("WITHOUT", "TIME", "ZONE")
            elif (first == "DOUBLE" and self.at("PRECISION")) or (first == "CHARACTER" and self.at("VARYING")):
                self.place += 1
            while self.at(".") and self.ahead().kind in ("WORD", "QUOTED"):
                self.place += 2
            if self.next.kind == "STRING":
                string = self.next.start
                self.place += 1
                self.form("STRING", string)
                return True
        self.place = start
        return False

    def _arguments(self) -> None:
        """Read the arguments of a call."""
        if self.at(")") or self.take("*"):
            return
        self.take_any("ALL", "DISTINCT")
        self.list_of(self._argument)
        if self.at("ORDER", "BY"):
            self.order()

    def _argument(self) -> None:
        self.take("VARIADIC")
        if self.next.kind in ("WORD", "QUOTED") and self.ahead().kind in ("=>", ":="):
            self.place += 2
        self.expression()

    def _call_clauses(self, start: int) -> None:
        """Read the clauses after a call: WITHIN GROUP, FILTER, OVER."""
        if self.take("WITHIN", "GROUP"):
            self.expect("(")
            self.order()
            self.expect(")")
        if self.at("FILTER") and self.ahead().kind == "(":
            self.place += 1
            self.expect("(", "WHERE")
            self.expression()
            self.expect(")")
            self.form("FILTER", start)
        if self.take_any("IGNORE", "RESPECT"):
            self.expect("NULLS")
        if self.take("OVER"):
            if self.at("("):
                self.window()
            else:
                self.name()
            self.form("OVER", start)
