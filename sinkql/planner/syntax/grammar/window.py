"""Read ORDER BY, definitions of windows, and names of types."""

from __future__ import annotations

from sinkql.planner.syntax.grammar import tokens
from sinkql.planner.syntax.grammar.tokens import RESERVED, TokenReader

TIMES = ("TIME", "TIMESTAMP")
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")


class Types(TokenReader):
    """The reader of type names."""

    def type_name(self) -> None:
        """Read a type's name."""
        self.take("SETOF")
        if self.next.kind not in ("WORD", "QUOTED") or self.next.keyword in RESERVED:
            raise self.mistake("a type")
        word = self.next.keyword
        self.place += 1
        if word == "MAP" and self.take("["):
            self.type_name()
            self.expect("=>")
            self.type_name()
            self.expect("]")
        elif word == "RECORD" and self.take("("):
            self.list_of(self._field)
            self.expect(")")
        while self.take("."):
            self.any_name()
        if (word == "DOUBLE" and self.take("PRECISION")) or word in ("CHARACTER", "BIT", "CHAR"):
            self.take("VARYING")
        elif word == "INTERVAL" and self._unit() and self.take("TO") and not self._unit():
            raise self.mistake("a unit")
        if self.take("("):
            self.list_of(self._modifier)
            self.expect(")")
        if word in TIMES and self.take_any("WITH", "WITHOUT"):
            self.expect("TIME", "ZONE")
        while self.at("[") or self.at_any("ARRAY", "LIST"):
            if self.take_any("ARRAY", "LIST") and not self.at("["):
                continue
            self.expect("[")
            self.place += self.next.kind == "NUMBER"
            self.expect("]")

    def _field(self) -> None:
        """Read a field of a record: its name, its type, and NOT NULL."""
        self.any_name()
        self.type_name()
        self.take("NOT", "NULL") or self.take("NULL")

    def _modifier(self) -> None:
        self.take("-")
        if self.next.kind not in ("NUMBER", "STRING") and not self.named():
            raise self.mistake("a number")
        self.place += 1

    def _unit(self) -> bool:
        return self.take_any(*_UNITS, *(f"{unit}S" for unit in _UNITS)) is not None


class Windows(Types):
    """The reader of orders and windows."""

    def expression(self, least: int = tokens.OR) -> None:
        """Read an expression whose operators have at least this precedence."""
        raise NotImplementedError

    def window(self) -> None:
        """Read the definition of a window."""
        self.expect("(")
        if self.named() and self.next.keyword not in ("PARTITION", "RANGE", "ROWS", "GROUPS"):
            self.place += 1
        if self.take("PARTITION", "BY"):
            self.list_of(self.expression)
        if self.at("ORDER"):
            self.order()
        if self.take_any("RANGE", "ROWS", "GROUPS"):
            if self.take("BETWEEN"):
                self._bound()
                self.expect("AND")
            self._bound()
            if self.take("EXCLUDE") and not self._read_exclude():
                raise self.mistake()
        self.expect(")")

    def _read_exclude(self) -> bool:
        return self.take("CURRENT", "ROW") or self.take("NO", "OTHERS") or self.take_any("GROUP", "TIES") is not None

    def _bound(self) -> None:
        if self.take("CURRENT", "ROW"):
            return
        if not self.take("UNBOUNDED"):
            self.expression()
        if not self.take_any("PRECEDING", "FOLLOWING"):
            raise self.mistake("PRECEDING or FOLLOWING")

    def order(self) -> None:
        """Read ORDER BY."""
        self.expect("ORDER", "BY")
        self.list_of(self._term)

    def _term(self) -> None:
        self.expression()
        if self.take("USING"):
            self.place += 1
        else:
            self.take_any("ASC", "DESC")
        if self.take("NULLS") and not self.take_any("FIRST", "LAST"):
            raise self.mistake("FIRST or LAST")
