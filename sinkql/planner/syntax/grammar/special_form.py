"""Read expressions with special syntax: CASE, CAST, INTERVAL, ARRAY, and calls such as TRIM(LEADING FROM …)."""

from __future__ import annotations

from sinkql.planner.syntax.grammar import tokens
from sinkql.planner.syntax.grammar.window import Windows

_CLOCKS = ("CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")
_QUERY = ("SELECT", "VALUES", "WITH", "TABLE")
EXPRESSION = "an expression"


class SpecialForms(Windows):
    """The reader of expressions with special syntax."""

    def query(self) -> None:
        """Read a query."""
        raise NotImplementedError

    def _named(self, start: int) -> None:
        """Read an expression that begins with a name: a column, a call, or a literal of a type."""
        raise NotImplementedError

    def _interval(self, start: int) -> None:
        """Read an interval, or a name `interval`."""
        if self.ahead().kind == "(" and self.ahead(2).kind == "NUMBER" and self.ahead(3).kind == ")":
            self.place += 4
        elif self.ahead().kind == "STRING":
            self.place += 1
        else:
            self._named(start)
            return
        if self.next.kind != "STRING":
            raise self.mistake("a string")
        string = self.next.start
        self.place += 1
        self.form("STRING", string)
        if self._unit() and self.take("TO") and not self._unit():
            raise self.mistake("a unit")
        if self.take("("):
            self._modifier()
            self.expect(")")
        self.form("interval", start)

    def _case(self, start: int) -> None:
        self.expect("CASE")
        if not self.at_any("WHEN", "ELSE", "END"):
            self.expression()
        self.expect("WHEN")
        while True:
            self.expression()
            self.expect("THEN")
            self.expression()
            if not self.take("WHEN"):
                break
        if self.take("ELSE"):
            self.expression()
        self.expect("END")
        self.form("case", start)

    def _cast(self, start: int) -> None:
        self.expect("CAST", "(")
        self.expression()
        self.expect("AS")
        self.type_name()
        if self.at("FORMAT"):
            raise self.foreign("SQ2215", "this expression is not supported: cast with format")
        self.expect(")")
        self.form("cast", start)

    def _exists(self, start: int) -> None:
        if self.ahead().kind != "(":
            self._named(start)
            return
        self.expect("EXISTS", "(")
        self.query()
        self.expect(")")

    def _array(self, start: int) -> None:
        """Read ARRAY[…], LIST[…] and MAP[…], and their forms over a query."""
        if self.next.keyword != "ARRAY" and self.ahead().kind not in ("[", "("):
            self._named(start)
            return
        if self.next.keyword != "ARRAY" and self.ahead().kind == "(" and self.ahead(2).keyword not in _QUERY:
            self._named(start)
            return
        map_ = self.next.keyword == "MAP"
        self.place += 1
        if self.take("("):
            self.query()
            self.expect(")")
        elif map_ and self.take("["):
            if not self.at("]"):
                self.list_of(self._entry)
            self.expect("]")
        elif self.at("["):
            self._elements()
        else:
            raise self.mistake('"["')

    def _elements(self) -> None:
        self.expect("[")
        if not self.at("]"):
            self.list_of(self._element)
        self.expect("]")

    def _element(self) -> None:
        if self.at("["):
            self._elements()
            return
        self.expression()

    def _entry(self) -> None:
        self.expression()
        self.expect("=>")
        self.expression()

    def _row(self, start: int) -> None:
        if self.ahead().kind != "(":
            self._named(start)
            return
        self.expect("ROW", "(")
        if not self.at(")"):
            self.list_of(self.expression)
        self.expect(")")
        self.form("call", start)

    def _constant(self, _start: int) -> None:
        self.place += 1

    def _clock(self, _start: int) -> None:
        self.place += 1
        if self.at("("):
            self.expect("(")
            if not self.at(")"):
                self._modifier()
            self.expect(")")

    def _extract(self) -> None:
        if self.next.kind != "STRING" and not self.named():
            raise self.mistake("a field")
        self.place += 1
        self.expect("FROM")
        self.expression()

    def _overlay(self) -> None:
        self.expression()
        if self.take("PLACING"):
            self.expression()
            self.expect("FROM")
            self.expression()
            if self.take("FOR"):
                self.expression()
        else:
            self._more()

    def _position(self) -> None:
        self.expression(tokens.RANGE + 1)
        if not self.take("IN"):
            self._more()
            return
        if self.at("NOT"):
            raise self.mistake(EXPRESSION)
        self.expression(tokens.RANGE + 1)

    def _part(self) -> None:
        if self.at(")"):
            return
        self.expression(tokens.RANGE + 1)
        if self.take("SIMILAR"):
            self.expression(tokens.RANGE + 1)
            self.expect("ESCAPE")
            self.expression()
        elif self.at_any("FROM", "FOR"):
            first = self.take_any("FROM", "FOR")
            self.expression()
            if self.take("FOR" if first == "FROM" else "FROM"):
                self.expression()
        else:
            self._more()

    def _trim(self) -> None:
        self.take_any("BOTH", "LEADING", "TRAILING")
        if not self.take("FROM"):
            self.expression()
            if not self.take("FROM"):
                self._more()
                return
        self.list_of(self.expression)

    def _more(self) -> None:
        while self.take(","):
            self.expression()


WORDS = {
    **dict.fromkeys(("NULL", "TRUE", "FALSE"), SpecialForms._constant),
    **dict.fromkeys(_CLOCKS, SpecialForms._clock),
    **dict.fromkeys(("ARRAY", "LIST", "MAP"), SpecialForms._array),
    "CASE": SpecialForms._case,
    "CAST": SpecialForms._cast,
    "EXISTS": SpecialForms._exists,
    "INTERVAL": SpecialForms._interval,
    "ROW": SpecialForms._row,
}
ARGUMENTS = {
    "EXTRACT": SpecialForms._extract,
    "OVERLAY": SpecialForms._overlay,
    "POSITION": SpecialForms._position,
    "SUBSTRING": SpecialForms._part,
    "TRIM": SpecialForms._trim,
}
