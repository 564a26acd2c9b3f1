"""Expressions of a query, by the order of precedence that their operators have in Postgres."""

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
"""Operators that stand beside another one of their level only in parentheses; of comparisons the planner says it."""
_SAME = {"!=": "<>", "~~": "LIKE", "!~~": "LIKE", "~~*": "ILIKE", "!~~*": "ILIKE", "!~": "~", "!~*": "~*"}
"""What operators are, but for a negation."""
_MEANT = {
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
"""Types whose names are no names of functions."""


class Expressions(SpecialForms):
    """Go past expressions, and note their forms."""

    def expression(self, least: int = tokens.OR) -> None:
        """Go past an expression whose operators bind at least so closely."""
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
        """Tell whether an expression stands behind ESCAPE, which is the name of a column otherwise."""
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
        """Go past what an operator stands before, and that operator."""
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
            self._behind(start, fields=opened)

    def _behind(self, start: int, *, fields: bool) -> None:
        """Go past subscripts and casts behind a value, and fields if it is in parentheses."""
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
        """Return how closely the operator that is next binds, and what it is; 0 where none is."""
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
            case "OR" | "AND" as found if not negated:
                return (tokens.OR if found == "OR" else tokens.AND), found
            case "IS" | "ISNULL" | "NOTNULL" if not negated:
                return tokens.IS, "IS"
            case "BETWEEN" | "IN" | "LIKE" | "ILIKE" | "SIMILAR" as found:
                return tokens.RANGE, found
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
        meant = _MEANT.get(sign)
        hint = f"Write {meant}." if meant else "Leave a space between operators, as in 1 - -1."
        return self.foreign("SQ2211", f"operator does not exist: {sign}", hint, length=len(sign))

    def _rest(self, level: int, kind: str) -> bool:
        """Go past an operator and what stands behind it; tell whether that is an expression."""
        self.take("NOT")
        if kind == "IS":
            return self._tested()
        if kind == "OPERATOR":
            self._named_operator()
            return self._compared(level)
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
                return self._compared(tokens.RANGE)
            case "AT":
                if self.take("LOCAL"):
                    return False
                self.expect("TIME", "ZONE")
                self.expression(tokens.AT + 1)
            case "COLLATE":
                self.path()
                return False
            case _:
                return self._compared(level)
        return True

    def _tested(self) -> bool:
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
        """Go past OPERATOR(schema.sign)."""
        self.place += 2
        while self.next.kind in ("WORD", "QUOTED"):
            self.place += 1
            self.expect(".")
        if self.next.kind not in OPERATORS:
            raise self.mistake("an operator")
        self.place += 1
        self.expect(")")

    def _compared(self, level: int) -> bool:
        """Go past the right side of an operator; tell whether it is an expression, and not ANY or ALL of many."""
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
        """Tell whether a query is next, in parentheses of its own or not."""
        count = 0
        while self.ahead(count).kind == "(":
            count += 1
        found = self.ahead(count).keyword
        if found in ("SELECT", "VALUES", "WITH", "SHOW"):
            return count == 0 or self._closes_as_query(count)
        return found == "TABLE" and count == 0 and self.ahead(1).kind in ("WORD", "QUOTED")

    def _closes_as_query(self, count: int) -> bool:
        """Tell whether what begins with parentheses is a query whole: all of it, or with UNION and the like behind."""
        depth, at = 0, self.place
        while at < len(self.lexemes):
            kind = self.lexemes[at].kind
            depth += (kind == "(") - (kind == ")")
            at += 1
            if depth == 0:
                break
        following = self.lexemes[min(at, len(self.lexemes) - 1)]
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
                self.any_name()  # a variable that no value was given for
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
        """Go past what begins with a name: a column, a call, a literal of a type."""
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
            self._of_call(start)

    def _prefixed(self) -> bool:
        """Go past a string with letters before it that are part of it: U&'…', N'…', B'…'."""
        word, behind = self.next, self.ahead()
        count = 2 if word.keyword == "U" and behind.kind == "&" else 1
        string = self.ahead(count)
        prefix = word.keyword in ("N", "B") if count == 1 else behind.start == word.end
        found = prefix and string.kind == "STRING" and self.ahead(count - 1).end == string.start
        self.place += count + 1 if found else 0
        return found

    def _typed(self) -> bool:
        """Go past a type's name with a string behind it, if that is next."""
        begun = self.place
        if self.next.kind == "WORD" and self.next.keyword not in RESERVED:
            self.place += 1
            first = self.lexemes[begun].keyword
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
        self.place = begun
        return False

    def _arguments(self) -> None:
        """Go past the arguments of a call."""
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

    def _of_call(self, start: int) -> None:
        """Go past what stands behind a call: WITHIN GROUP, FILTER, OVER."""
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
