"""A statement's outline (its keywords, ? for names) up to a name → the kinds of items that the name may be of."""

from __future__ import annotations

import re
from typing import Literal

from sinkql.keywords import Keywords

NameKind = Literal[
    "SECRET", "CONNECTION", "CLUSTER", "SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW", "INDEX", "SINK",
    "RELATION", "EXPORTED", "COLUMN", "FUNCTION", "SETTING", "SCHEMA", "DATABASE", "DATA TYPE", "SECRET FUNCTION",
]  # fmt: skip
"""RELATION is all that can be queried, EXPORTED what a sink can read."""

_ITEM = "SECRET|CONNECTION|CLUSTER|SOURCE|TABLE|MATERIALIZED VIEW|VIEW|INDEX|SINK|SCHEMA|DATABASE"
_NAMED = re.compile(
    rf"(?:DROP|ALTER|SHOW(?: REDACTED)? CREATE|COMMENT ON|VALIDATE|OPTIMIZE|EXPLAIN(?: .*)?) (?P<kind>{_ITEM})"
    r"(?: IF EXISTS)?(?: \? ,)*"
)
_CONNECTION = re.compile(r"CREATE .*(?:FROM|INTO|USING) (?P<kind>[A-Z0-9_ ]+?) CONNECTION")
_PLACES: tuple[tuple[str, tuple[NameKind, ...]], ...] = (
    (r".*(?:IN|SET) CLUSTER|ALTER CLUSTER \? SWAP WITH", ("CLUSTER",)),
    (r"CREATE SINK .*FROM|ALTER SINK .* SET FROM", ("EXPORTED",)),
    (r"CREATE SECRET .* (?:AS|\|\|)|ALTER SECRET \? AS", ("SECRET FUNCTION",)),
    (r".* SECRET", ("SECRET",)),
    (r"CREATE SINK .*(?:KEY|PARTITION BY|SORT BY) \((?: .* ,)?", ("COLUMN",)),
    (r"CREATE SINK .*PARTITION BY \((?: .* ,)? \? \((?: [^ ]+ ,)?", ("COLUMN",)),
    (r"CREATE (?:SOURCE|TABLE)(?: IF NOT EXISTS)? \? \((?: .*,)? \?", ("DATA TYPE",)),
    (r"CREATE TABLE .* FROM SOURCE|CREATE SUBSOURCE .* OF SOURCE|CREATE SINKS .* OF SOURCE", ("SOURCE",)),
    (r"CREATE (?:DEFAULT )?INDEX .*ON|SHOW INDEXES ON", ("MATERIALIZED VIEW",)),
    (r"SHOW (?:COLUMNS|FIELDS) (?:FROM|IN)|SUBSCRIBE(?: TO)?|COMMENT ON COLUMN", ("RELATION",)),
    (r"REPLAY ERRORS FROM|SHOW SUBSOURCES ON", ("SOURCE",)),
    (r"SHOW .*FROM", ("SCHEMA",)),
    (r"INSERT INTO|UPDATE|DELETE FROM", ("TABLE",)),
    (r"INSERT INTO \? \((?: \? ,)*|UPDATE \? SET", ("COLUMN",)),
    (r"(?:SET|SHOW|RESET|ALTER SYSTEM SET|ALTER SYSTEM RESET)(?: SESSION| LOCAL)?", ("SETTING",)),
)
_COMPILED = tuple((re.compile(pattern), kinds) for pattern, kinds in _PLACES)


def name_kinds(outline: str, words: Keywords) -> tuple[tuple[NameKind, ...], str | None]:
    """Return the kinds of names that may stand behind a outline, and the type that a connection must have."""
    connection = _CONNECTION.fullmatch(outline)
    if connection is not None:
        # a kind of sources may read through connections of other types
        return ("CONNECTION",), connection["kind"] if words.options("CONNECTION", connection["kind"]) else None
    for pattern, kinds in _COMPILED:
        if pattern.fullmatch(outline):
            return kinds, None
    named = _NAMED.fullmatch(outline)
    if named is not None:
        return _of_kind(named["kind"]), None
    return (), None


def _of_kind(kind: str) -> tuple[NameKind, ...]:
    match kind:
        case (
            "SECRET" | "CONNECTION" | "CLUSTER" | "SOURCE" | "TABLE" | "VIEW" | "MATERIALIZED VIEW" | "INDEX" | "SINK"
            | "SCHEMA" | "DATABASE"
        ):  # fmt: skip
            return (kind,)
        case _:
            return ()
