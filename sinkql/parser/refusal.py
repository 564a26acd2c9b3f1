"""What the dialect has and this version has not → one coded sentence that names what to use instead.

It is asked only where the grammar has no way on: a form that the grammar learns is never looked up here again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sinkql.errors import SinkqlError, Span
from sinkql.parser.lexical import Lexeme

_LOOKAHEAD = 3


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
_USE_SOURCE = "Use FROM FILES (PATH = '…') or FROM LOAD GENERATOR COUNTER."

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
    # secrets, connections, clusters
    Refusal(
        ".*", "'HEX", "SQ2978", "hexadecimal strings are not supported yet",
        r"Write the text: '…', or E'\u00e9' by code.",
    ),
    Refusal(
        "CREATE CONNECTION .*", "USING", "SQ2976", "tunnels are not supported yet", "Connect to the host itself."
    ),
    Refusal(
        "CREATE CONNECTION .* AWS PRIVATELINK.*", r"\(", "SQ2976", "tunnels are not supported yet",
        "Connect to the host itself.",
    ),
    Refusal(
        "CREATE CLUSTER .*", "FEATURES", "SQ2975", "cluster features are not supported yet", "Leave FEATURES out."
    ),
    Refusal(
        r"CREATE CLUSTER .*REPLICAS =? ?\(.*", r"\(", "SQ2975", "clusters with named replicas are not supported yet",
        "Use CREATE CLUSTER name (SIZE = '…').",
    ),
    Refusal(
        "CREATE CLUSTER .*(SCHEDULE|STRATEGY).*", r"REFRESH|HYDRATION|\(", "SQ2975",
        "schedules of clusters are not supported yet", "Leave the option out.",
    ),
    # sources
    Refusal(
        "CREATE SOURCE .*FROM", "KAFKA|POSTGRES|MYSQL|SQL SERVER|WEBHOOK", "SQ2971",
        "sources from {0} are not supported yet", _USE_SOURCE,
    ),
    Refusal(
        "CREATE SOURCE .*FORMAT", "PROTOBUF|REGEX", "SQ2973", "FORMAT {0} is not supported yet",
        "Use FORMAT JSON or FORMAT CSV.",
    ),
    Refusal(
        "CREATE SOURCE .*FORMAT AVRO", "USING", "SQ2973", "Avro schemas are not supported yet",
        "Use FORMAT JSON or FORMAT CSV.",
    ),
    Refusal(
        "CREATE SOURCE .*", "(KEY|VALUE) FORMAT", "SQ2973", "{0} is not supported yet",
        "Use FORMAT JSON or FORMAT CSV.",
    ),
    Refusal(
        "CREATE SOURCE .*INCLUDE.*", "HEADER", "SQ2973", "INCLUDE HEADER is not supported yet", "Use INCLUDE HEADERS."
    ),
    Refusal(
        "CREATE SOURCE .*ENVELOPE UPSERT", r"\(", "SQ2973", "options of ENVELOPE UPSERT are not supported yet",
        "Use ENVELOPE UPSERT.",
    ),
    Refusal(
        "CREATE SOURCE .*", "FOR (TABLES|SCHEMAS|ALL TABLES)", "SQ2973", "{0} is not supported yet",
        "Create one source for each table.",
    ),
    Refusal(
        "CREATE SOURCE .*", "EXPOSE PROGRESS", "SQ2973", "{0} is not supported yet",
        "Query mz_internal.mz_sink_statistics.",
    ),
    # views
    Refusal(
        "CREATE( OR REPLACE)?", "REPLACEMENT", "SQ2974", "replacements are not supported yet",
        "DROP and CREATE the view.",
    ),
    Refusal(
        "CREATE .*VIEW .*IN( CLUSTER [^ ]+)?", "REPLICA", "SQ2974", "replicas are not supported yet",
        "Use IN CLUSTER name.",
    ),
    Refusal(
        "CREATE .*RETAIN HISTORY( =)? FOR", r"\S+", "SQ2974", "RETAIN HISTORY is not supported yet",
        "Leave it out.",
    ),
    Refusal("CREATE .*REFRESH( =)? (EVERY|AT|ON)", r"\S+", "SQ2974", "REFRESH is not supported yet", "Leave it out."),
    # sinks
    Refusal(
        "CREATE SINK .*INTO", "KAFKA", "SQ2972", "sinks into KAFKA are not supported yet",
        "Use INTO ICEBERG CATALOG CONNECTION name (NAMESPACE = '…', TABLE = '…').",
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
