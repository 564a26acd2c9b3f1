"""What other systems' queries have → one coded sentence that says how it is written here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sinkql.errors import SinkqlError, Span

_BACK = 16
_AHEAD = 4


@dataclass(frozen=True, slots=True)
class _Habit:
    """Hold a pattern of the tokens near the place where parsing stops, and what to say; {0} is what it matched."""

    found: str
    message: str
    hint: str
    code: str = "SQ1006"


_WINDOWS = "Group by date_bin('10 minutes', ts, timestamp '2000-01-01') or date_trunc('hour', ts)."
_HABITS = (
    _Habit(
        r"\[ [US]\d+ (AS|VERSION|\])", "names by id are not supported yet", "Write the item's name.", "SQ2986"
    ),
    _Habit(
        r"AS OF (\d+|AT LEAST|NOW|MZ_NOW|TIMESTAMP|'.*)", "AS OF is not supported yet",
        "Leave AS OF out: a query reads what is there now.", "SQ2987",
    ),
    _Habit(r"` \S+ `|`", "backticks are no quotes", "Write a name as it is or in double quotes, a string as '…'."),
    _Habit("{ [{%]|{%?", "a template is not filled in", "Render the template first, or write the name itself."),
    _Habit("#.*|/ /.*", "this begins no comment", "Begin comments with --."),
    _Habit("EMIT (CHANGES|FINAL|ON)", "there is no EMIT", "Leave {0} out: a view is always up to date."),
    _Habit(r"(TUMBLE|HOP|SESSION|CUMULATE) \( TABLE", "there are no window functions over tables", _WINDOWS),
    _Habit("WINDOW (TUMBLING|HOPPING|SESSION)", "there are no windows of streams", _WINDOWS),
    _Habit(r"TOP \d+", "there is no TOP", "Leave it out: a view's rows have no order."),
    _Habit("MINUS(?= SELECT)", "there is no MINUS", "Write WHERE with the opposite condition."),
    _Habit("ON CONFLICT|RETURNING", "queries have no {0}", "Leave it out."),
    _Habit("(CONNECT BY|START WITH|PIVOT|UNPIVOT|MATCH_RECOGNIZE)", "there is no {0}", "Leave it out."),
    _Habit("IN CLUSTER", "IN CLUSTER stands before AS", "Write IN CLUSTER name before AS SELECT."),
    _Habit("(CLUSTER|DISTRIBUTE|SORT|PARTITION) BY", "there is no {0}", "Leave it out: a view's rows have no order."),
)  # fmt: skip


def habit(tokens: Sequence[Any], stuck: int, text: str, offset: int) -> SinkqlError | None:
    """Return the error for a foreign form at the token number `stuck`, or a little before it."""
    for place in range(max(0, stuck - _BACK), min(stuck + 1, len(tokens))):
        ahead = " ".join(text[each.start : each.end + 1].upper() for each in tokens[place : place + _AHEAD])
        for each in _HABITS:
            found = re.match(rf"(?:{each.found})(?= |$)", ahead)
            if found is None:
                continue
            last = tokens[min(place + found[0].count(" "), len(tokens) - 1)]
            span = Span(offset + tokens[place].start, offset + last.end + 1)
            return SinkqlError(each.code, each.message.format(found[0]), span, hint=each.hint.format(found[0]))
    return None
