"""ORDER BY, and the definitions of windows."""

from __future__ import annotations

from sinkql.planner.syntax.grammar import precedence
from sinkql.planner.syntax.grammar.type import Types


class Windows(Types):
    """Go past orders and windows."""

    def expression(self, least: int = precedence.OR) -> None:
        """Go past an expression whose operators bind at least so closely."""
        raise NotImplementedError

    def window(self) -> None:
        """Go past the definition of a window."""
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
            if self.take("EXCLUDE") and not self._excluded():
                raise self.mistake()
        self.expect(")")

    def _excluded(self) -> bool:
        return self.take("CURRENT", "ROW") or self.take("NO", "OTHERS") or self.take_any("GROUP", "TIES") is not None

    def _bound(self) -> None:
        if self.take("CURRENT", "ROW"):
            return
        if not self.take("UNBOUNDED"):
            self.expression()
        if not self.take_any("PRECEDING", "FOLLOWING"):
            raise self.mistake("PRECEDING or FOLLOWING")

    def order(self) -> None:
        """Go past ORDER BY."""
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
