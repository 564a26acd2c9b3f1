"""The commands, flags, variables, extras, pages, options and words that messages name exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import pytest

from mistake.messages import told
from sinkql.catalog.system.resolve import VIEWS
from sinkql.cli.main import cli
from sinkql.keywords import OPTION_NAMES, QUERY, SECRET_FUNCTIONS
from sinkql.parser.hint.other_dialects import habits
from sinkql.parser.read import automaton
from sinkql.planner.function import call, set_returning
from sinkql.session import Session
from support.keywords import WORDS

_ROOT = Path(__file__).parents[2]
_OURS = {"as", "folder", "or", "was"}
"""Words after "sinkql" that are no commands: "sinkql" is the program's name there."""
_FLAGS_ELSEWHERE = {
    "--add-config", "--alter", "--bootstrap-server", "--editable", "--entity-name", "--entity-type", "--from",
    "--keep", "--selector", "--topic", "--upgrade",
}  # fmt: skip
_VARIABLES_ELSEWHERE = {
    # boto3, hvac and Spark
    "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_REGION", "AWS_SECRET_ACCESS_KEY", "SPARK_LOCAL_IP",
    "VAULT_ADDR", "VAULT_CACERT", "VAULT_TOKEN",
    # DuckDB and Flink
    "CLIENT_ID", "CLIENT_SECRET", "OAUTH2_SCOPE", "OAUTH2_SERVER_URI", "SYSTEM_TIME",
}  # fmt: skip
_WORDS_ELSEWHERE = {
    # queries, types and formats of to_char
    "ALWAYS", "CUBE", "CURRENT", "FOLLOWING", "GENERATED", "GROUPING", "GROUPS", "PRECEDING", "RANGE", "ROLLUP", "ROW",
    "SETS", "UNBOUNDED", "COALESCE", "ISNULL", "NULLIF", "ORDINALITY", "TIMESTAMPTZ", "AM", "DD", "DDD", "EEEE", "FM",
    "FM999990", "HH12", "HH24", "MI", "MM", "MS", "PL", "PR", "RN", "S999", "SG", "SS", "TH", "US", "YY", "YYYY",
    # words that the parser reads and refuses
    "BERNOULLI", "CHANGES", "COPY", "DESCRIBE", "DISCARD", "DOC", "EMIT", "SYSTEM_TIME", "TABLESAMPLE",
    # database servers
    "ATTACH", "AUTHORIZATION", "BYPASSRLS", "CLIENT", "ENGINE", "GLOBAL", "GRANT", "IDENTITY", "LOCK", "LOGIN",
    "RECOVER", "SLAVE", "UNLOGGED", "USAGE", "XA",
    # other systems, and words of everyday use
    "AAAA", "API", "ASCII", "EDITOR", "FILE", "GB18030", "GCS", "HOME", "HTTP", "IP", "ITEM", "KV", "LATIN1",
    "NA", "NTP", "NUL", "OPTION", "PEM", "PGPASSWORD", "PGREQUIREAUTH", "POST", "RDS", "REST", "S3", "SJIS", "SQ3701",
    "STS", "TLS", "TMPDIR", "TPC", "UTC", "UTF", "UTF16", "UXXXXXXXX", "WIN1252",
}  # fmt: skip
_OF_WINDOWS = {"lag", "row_number"}
_OF_SYNTAX = {"cast", "extract", "mz_now", "now", "numeric", "record", "varchar"}
_OF_CHECKS = {"constant_time_eq", "hmac"}
_OF_PARTITIONS = {"bucket", "day", "hour", "truncate"}
_FILES = {"read_csv", "read_json", "read_parquet"}
_FUNCTIONS_ELSEWHERE = {
    "getenv", "iceberg_scan", "list_length", "nfile", "pg_drop_replication_slot", "pg_reload_conf",
    "pg_terminate_backend",
}  # fmt: skip
_WORD_OPTIONS = {"PROGRESS", "REPLICATE", "STATE"}
"""Options of statements that the parser's lists do not contain."""


def _named(pattern: str) -> dict[str, str]:
    """Return the matches of a pattern in all texts, each with the last text that contains it."""
    return {found: text for text in told() for found in re.findall(pattern, text)}


def _commands(group: click.Group, before: str = "") -> dict[str, click.Command]:
    found = {f"{before}{name}": each for name, each in group.commands.items()}
    for name, each in tuple(found.items()):
        if isinstance(each, click.Group):
            found |= _commands(each, f"{name} ")
    return found


def _flags(command: click.Command) -> set[str]:
    return {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}


def _wrong_commands(text: str) -> list[str]:
    """Return the commands in a text that do not exist or have an unknown flag."""
    commands, wrong = _commands(cli), []
    for first, second, flags in re.findall(r"\bsinkql ([a-z-]+)(?: ([a-z]+))?((?: (?:--?[a-z][a-z-]*))*)", text):
        name = f"{first} {second}" if isinstance(commands.get(first), click.Group) else first
        if first in _OURS:
            continue
        known = _flags(commands[name]) if name in commands else None
        if known is None or not set(flags.split()) <= known | _flags(cli):
            wrong.append(f"sinkql {name}{flags}: {text}")
    return wrong


def test_commands_that_are_named_are_there() -> None:
    assert [wrong for text in told() for wrong in _wrong_commands(text)] == []
    assert len(_named(r"\bsinkql [a-z]+")) >= 15


@pytest.mark.parametrize("text", ["Run sinkql exce FILE.", "Run sinkql exec --onec.", "Run sinkql secret sett NAME."])
def test_a_command_that_is_not_there_is_found(text: str) -> None:
    assert _wrong_commands(text)


def test_flags_that_are_named_are_there() -> None:
    known = _flags(cli).union(*(_flags(each) for each in _commands(cli).values())) | _FLAGS_ELSEWHERE
    named = _named(r"(?<![\w-])--[a-z][a-z-]+")
    assert {flag: text for flag, text in named.items() if flag not in known} == {}
    assert len(named) >= 10


def test_variables_that_are_named_are_asked_for() -> None:
    source = "".join(path.read_text("utf-8") for path in (_ROOT / "sinkql").rglob("*.py"))
    named = _named(r"\b[A-Z]+\d?(?:_[A-Z0-9]+)+\b")
    wrong = {
        each: text for each, text in named.items() if each not in _VARIABLES_ELSEWHERE and f'"{each}"' not in source
    }
    assert wrong == {}
    assert len(named) >= 8


def test_extras_that_are_named_are_there() -> None:
    extras = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = _named(r"sinkql\[(\w+)\]")
    assert set(named) <= set(extras)
    assert len(named) >= 6


def test_pages_that_are_named_are_there() -> None:
    named = _named(r"\b(?:docs/)?[\w/-]+\.md\b")
    assert [each for each in named if not (_ROOT / "docs" / each.removeprefix("docs/")).is_file()] == []


def test_functions_that_are_named_are_there() -> None:
    known = {
        *call.NAMES,
        *call.AGGREGATES,
        *set_returning.HANDLERS,
        *SECRET_FUNCTIONS,
        *_OF_SYNTAX,
        *_OF_CHECKS,
        *_OF_WINDOWS,
    }
    known |= _OF_PARTITIONS | _FILES | _FUNCTIONS_ELSEWHERE | {each.name for each in habits().function}
    named = _named(r"\b([a-z_][a-z_0-9]*)\(")
    assert {each: text for each, text in named.items() if each not in known} == {}
    assert len(named) >= 30


def test_system_relations_that_are_named_are_there() -> None:
    named = _named(r"(?<![\".])\b(?:mz_internal\.|mz_catalog\.)?(mz_[a-z_]+)\b(?!\()")
    assert {each: text for each, text in named.items() if each not in VIEWS} == {}
    assert len(named) >= 5


def test_queries_over_system_relations_that_are_named_run(tmp_path: Path) -> None:
    session = Session(tmp_path / "catalog.db")
    queries = _named(r"\bSELECT [^…]+? FROM mz_\w+(?:\.\w+)?")
    for query in queries:
        session.execute(f"{query};")
    assert len(queries) >= 3


def test_options_that_are_given_a_value_are_there() -> None:
    known = WORDS.labels | OPTION_NAMES | _WORD_OPTIONS | {"ENGINE", "OPTION"}
    named = _named(r"\b([A-Z][A-Z0-9]*(?: [A-Z0-9]+)*) = ")
    assert {each: text for each, text in named.items() if each not in known} == {}
    assert len(named) >= 60


def test_words_in_capitals_are_of_the_language() -> None:
    """A correct word that is not SQL belongs in `_WORDS_ELSEWHERE`."""
    names = WORDS.labels | WORDS.words | OPTION_NAMES | QUERY | {value for _, value in WORDS.choices}
    known = {word for name in names for word in name.split()} | set(re.findall(r'"([A-Z_0-9]+)"i', automaton.text()))
    named = _named(r"(?<![\w'.$%{-])[A-Z][A-Z0-9]+(?![\w'-])")
    wrong = {each: text for each, text in named.items() if each not in known | _WORD_OPTIONS | _WORDS_ELSEWHERE}
    assert wrong == {}
    assert len(named) >= 250
