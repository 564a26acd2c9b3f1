"""`sinkql help` finds every error code, statement, function, option, relation and command, and answers to symptoms."""

from __future__ import annotations

import tomllib
from functools import cache

import pytest

from docs.page_text import ROOT
from sinkql.catalog.system import RELATIONS
from sinkql.cli.main import cli
from sinkql.connector_api.option_help import offered
from sinkql.connector_api.registry import discover
from sinkql.documentation import Documentation, Entry, Found, Page
from sinkql.errors import error_codes
from sinkql.planner.item.connection import ClusterOptions
from sinkql.shell.command.help import topics

pytestmark = pytest.mark.long


@cache
def _documentation() -> Documentation:
    return Documentation()


def _find(words: str) -> Found:
    return _documentation().find(words)


def test_every_error_code_has_a_page() -> None:
    assert [code for code in error_codes if not _documentation().has_error(code)] == []
    page = _find("SQ2342").page
    assert page is not None
    assert "SQ2342" in page.title


def test_every_statement_has_a_page() -> None:
    found = {topic.name: _find(topic.name) for topic in topics()}
    pages = {name: each.page or (each.entries[0].page if each.entries else None) for name, each in found.items()}
    assert [name for name, page in pages.items() if page is None or not page.path.startswith("sql/")] == []


def test_every_function_has_a_row() -> None:
    names = tomllib.loads((ROOT / "sinkql" / "logical" / "function_help.toml").read_text())["functions"]
    assert len(names) > 150
    words = [name for name in names if name.isidentifier()]
    assert [name for name in words if all(not each.is_function for each in _find(name).entries)] == []


def test_every_option_has_a_row() -> None:
    registry = discover()
    kinds: list[type | None] = [connection.options for connection in registry.connections.values()]
    kinds += [format_.options for format_ in registry.formats.values()]
    kinds += [each for kind in registry.sources.values() for each in (kind.options, kind.with_options)]
    kinds += [each for kind in registry.sinks.values() for each in (kind.options, kind.with_options)]
    labels = {option.label for each in (*kinds, ClusterOptions) if each is not None for option in offered(each)}
    assert len(labels) > 100
    assert sorted(label for label in labels if not _has_name(_find(label), label)) == []


def _has_name(found: Found, name: str) -> bool:
    return any(name in each.name for each in (*found.entries, *found.listed) if isinstance(each, Entry))


def test_every_relation_has_a_section() -> None:
    missing = [
        f"{schema}.{name}"
        for schema, name in RELATIONS
        if not _has_name(_find(f"{schema}.{name}"), name) or not _has_name(_find(name), name)
    ]
    assert missing == []


def test_every_command_has_a_section() -> None:
    missing = [name for name in cli.commands if not _has_name(_find(f"sinkql {name}"), name)]
    assert missing == []


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("install", "how-to/install"),
        ("quickstart", "quickstart"),
        ("kafka source", "connectors/kafka-source"),
        ("kafka sasl", "connectors/kafka-source"),
        ("s3 tables", "how-to/choose-a-catalog"),
        ("postgres rights", "how-to/capture-postgres"),
        ("lag", "how-to/monitor"),
        ("what is a bad value of lag", "how-to/alerts/lag"),
        ("SQ3440", "errors/SQ3440"),
        ("slot dropped", "how-to/lost-history"),
        ("lost changes", "how-to/lost-history"),
        ("lost changes", "errors/SQ3702"),
        ("file changed", "errors/SQ3301"),
        ("rolled back", "errors/SQ3501"),
        ("drop sink same table", "how-to/existing-table"),
        ("upsert", "concepts/upserts"),
        ("compaction", "how-to/small-files"),
        ("add a column", "how-to/change"),
        ("two hosts", "how-to/several-hosts"),
        ("postgres disk full", "how-to/alerts/retained-wal"),
        ("snowflake", "how-to/read-tables"),
        ("flink", "how-to/from-flink"),
        ("iceberg sink options", "connectors/iceberg-sink"),
        ("exactly once", "concepts/exactly-once"),
        ("_mz_diff", "connectors/iceberg-sink"),
        ("slow", "how-to/slow"),
        ("backup", "how-to/backup"),
        ("airflow", "how-to/schedule"),
        ("github actions", "how-to/ci"),
        ("upgrade", "releases/upgrading"),
        ("bad record", "how-to/bad-records"),
        ("rotate a secret", "how-to/secrets"),
    ],
)
def test_a_question_is_answered(words: str, page: str) -> None:
    """The page is shown, or is one of the first four in the list, where a second `sinkql help` shows it."""
    found = _find(words)
    first = [found.page] if found.page is not None else []
    first += [each for each in found.listed if isinstance(each, Page)][: 4 - len(first)]
    assert page in [each.path for each in first]


def test_an_alert_comes_before_a_function_of_its_name() -> None:
    found = _find("lag")
    assert found.page is not None
    assert found.page.path == "how-to/alerts/lag"
    assert any(entry.is_function for entry in found.entries)


def test_a_method_of_a_tutorial_does_not_answer_a_word() -> None:
    assert _find("upsert").entries == ()


def test_a_guide_comes_before_the_statement_that_the_words_begin_with() -> None:
    assert _find("drop sink").page is not None
    assert _find("drop sink same table").page is None
