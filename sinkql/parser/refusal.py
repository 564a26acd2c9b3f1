"""What the dialect has and this version has not → one coded sentence that names what to use instead.

It is asked only where the grammar has no way on: a form that the grammar learns is never looked up here again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sinkql.errors import SinkqlError, Span
from sinkql.parser.lexical import Lexeme

_LOOKAHEAD = 11
"""The longest form: [ id AS database . schema . item VERSION n ]."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Hold one form: patterns of the words `before` and from it on, and what to say; {0} is what `found` matched."""

    before: str
    found: str
    code: str
    message: str
    hint: str


_ITEMS = "ROLE|USER|TYPE|NETWORK POLICY|FUNCTION|METRIC SINK|DEFAULT PRIVILEGES"
_SHOWN = "ROLES|TYPES|PRIVILEGES"
_ALTERED = "ROLE|TYPE|NETWORK POLICY|DEFAULT PRIVILEGES"
_USE_ITEMS = "Use secrets, connections, clusters, sources, views, materialized views and sinks."

_REFUSALS = (
    # statements
    Refusal(
        "", "COPY", "SQ2962", "{0} is not supported yet",
        "Write rows into files, and read them by CREATE SOURCE … FROM FILES.",
    ),
    Refusal(
        "", "DECLARE|FETCH|CLOSE|PREPARE|EXECUTE|DEALLOCATE", "SQ2963", "{0} is not supported yet",
        "Use CREATE SINK, and query its table.",
    ),
    Refusal(
        "ALTER", _ALTERED, "SQ2965", "ALTER {0} is not supported yet",
        "Leave it out; whoever has the catalog file may do all.",
    ),
    Refusal("", "DISCARD", "SQ2966", "{0} is not supported yet", "Use SET name = DEFAULT."),
    Refusal(
        "(CREATE|DROP)( OR REPLACE)?", _ITEMS, "SQ2967", "{0} is not supported yet", _USE_ITEMS
    ),
    Refusal(
        "SHOW( REDACTED)? CREATE", _ITEMS, "SQ2967", "{0} is not supported yet", _USE_ITEMS
    ),
    Refusal("SHOW", _SHOWN, "SQ2967", "SHOW {0} is not supported yet", "Use SHOW OBJECTS."),
    Refusal(
        "SHOW (ROLE|NETWORK|DEFAULT)", "MEMBERSHIP|POLICIES|PRIVILEGES", "SQ2967", "SHOW {0} is not supported yet",
        "Use SHOW OBJECTS.",
    ),
    Refusal(
        "(CREATE|DROP) CLUSTER REPLICA.*", r"\S+", "SQ2967", "CLUSTER REPLICA is not supported yet", _USE_ITEMS
    ),
    Refusal(
        "", "GRANT|REVOKE|REASSIGN", "SQ2969", "privileges are not supported yet",
        "Leave {0} out; whoever has the catalog file may do all.",
    ),
    # variables
    Refusal(
        "SET SESSION CHARACTERISTICS", "AS", "SQ2961", "transactions are not supported yet",
        "Leave it out; each statement takes effect by itself.",
    ),
    # names by id, which only systems write
    Refusal(
        ".*", r"\[ [US]\d+( AS \S+( \. \S+)*)?( VERSION \d+)? \]", "SQ2986", "names by id are not supported yet",
        "Write the item's name.",
    ),
    Refusal(
        r".*\[ [US]\d+", r"(AS \S+( \. \S+)*)?( ?VERSION \d+)? \]", "SQ2986", "names by id are not supported yet",
        "Write the item's name.",
    ),
    # secrets
    Refusal(
        "(CREATE|ALTER) SECRET .*AS .*", r"::|\(|AS", "SQ2979", "expressions of secrets are not supported yet",
        "Write '…', decode('…', 'base64'), or a reference such as env_var('NAME'), joined by ||.",
    ),
    Refusal(
        "(CREATE|ALTER) SECRET .*", "'HEX", "SQ2978", "a hexadecimal string as a secret is not supported yet",
        "Use decode('…', 'base64').",
    ),
)  # fmt: skip


def refusal(lexemes: Sequence[Lexeme], place: int) -> SinkqlError | None:
    """Return the error for the form that the lexeme at `place` begins, None for what is a mistake."""
    before = " ".join(_word(lexeme) for lexeme in lexemes[:place])
    ahead = " ".join(_word(lexeme) for lexeme in lexemes[place : place + _LOOKAHEAD])
    for each in _REFUSALS:
        found = re.match(rf"(?:{each.found})(?= |$)", ahead)
        if found is None or re.fullmatch(each.before, before) is None:
            continue
        last = place + found[0].count(" ")
        span = Span(lexemes[place].start, lexemes[last].end)
        return SinkqlError(each.code, each.message.format(found[0]), span, hint=each.hint.format(found[0]))
    return None


def _word(lexeme: Lexeme) -> str:
    """Return a lexeme as the patterns see it: a word in upper case, a mark for what has a text of its own."""
    match lexeme.kind:
        case "WORD":
            return lexeme.text.upper()
        case "STRING":
            return "'"
        case "HEX":
            return "'HEX"
        case "QUOTED":
            return '"'
        case _:
            return lexeme.text
