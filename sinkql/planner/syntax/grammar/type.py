"""Names of types in a query."""

from __future__ import annotations

from sinkql.planner.syntax.grammar.tokens import RESERVED, TokenReader

TIMES = ("TIME", "TIMESTAMP")
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")


class Types(TokenReader):
    """Go past names of types."""

    def type_name(self) -> None:
        """Go past a type's name."""
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
        """Go past a field of a record: its name, its type, and NOT NULL."""
        self.any_name()
        self.type_name()
        self.take("NOT", "NULL") or self.take("NULL")

    def _modifier(self) -> None:
        self.take("-")
        if self.next.kind not in ("NUMBER", "STRING") and not self.named():
            raise self.mistake("a number")
        self.place += 1

    def _unit(self) -> bool:
        return self.take_any(*_UNITS, *(f"{each}S" for each in _UNITS)) is not None
