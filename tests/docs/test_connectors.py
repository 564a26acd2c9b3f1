"""The pages of connectors have the options of the code, and the types that real servers' columns get."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.connector_page import failpoints, filled, options, regions
from sinkql.connector_api.registry import Registry, discover
from sinkql.session import Session
from support.mariadb import MariaDb, mariadb
from support.postgres import Postgres

pytestmark = pytest.mark.long

_FOLDER = Path(__file__).parents[2] / "docs" / "connectors"
_PAGES = sorted(_FOLDER.glob("*.md"))
_ANY = re.MULTILINE | re.DOTALL


@pytest.fixture(scope="module")
def registry() -> Registry:
    return discover()


@pytest.fixture
def maria(tmp_path: Path) -> Iterator[MariaDb]:
    with mariadb(tmp_path) as found:
        yield found


@pytest.mark.parametrize("path", _PAGES, ids=lambda path: path.stem)
def test_options_are_those_of_the_code(path: Path, registry: Registry, pytestconfig: pytest.Config) -> None:
    text = path.read_text()
    written = filled(text, options(registry))
    if pytestconfig.getoption("--rewrite"):
        path.write_text(written)
    assert written == text
    assert failpoints(text) == []


def test_every_option_is_in_one_page(registry: Registry) -> None:
    found = [name for path in _PAGES for name in regions(path.read_text())]
    assert sorted(found) == sorted(options(registry))


@pytest.mark.server
def test_types_of_postgres_are_those_of_the_page(
    postgres: Postgres, postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    types = _types("postgres")
    columns = ", ".join(f"c{place} {type_}" for place, (type_, _) in enumerate(types))
    postgres.execute(
        f"CREATE TABLE t (id integer PRIMARY KEY, {columns}); CREATE PUBLICATION p FOR TABLE t", postgres_database
    )
    place = f"HOST = '127.0.0.1', PORT = {postgres.port}, USER = 'postgres', DATABASE = '{postgres_database}'"
    with Session() as session:
        session.execute(
            f"CREATE CONNECTION pg TO POSTGRES ({place}); "
            "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION = 'p') FOR TABLES (public.t);"
        )
        assert _columns(session) == [wanted for _, wanted in types]


@pytest.mark.server
def test_types_of_mysql_are_those_of_the_page(maria: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    types = _types("mysql")
    columns = ", ".join(f"c{place} {_MARIADB.get(type_, type_)}" for place, (type_, _) in enumerate(types))
    maria.run("CREATE DATABASE d", f"CREATE TABLE d.t (id integer PRIMARY KEY, {columns})")
    with Session() as session:
        session.execute(
            f"CREATE CONNECTION my TO MYSQL (HOST = '127.0.0.1', PORT = {maria.port}, USER = 'root'); "
            "CREATE SOURCE s FROM MYSQL CONNECTION my FOR TABLES (d.t);"
        )
        assert _columns(session) == [wanted for _, wanted in types]


_MARIADB = {
    "char": "char(5)", "varchar": "varchar(5)", "enum": "enum('a')", "set": "set('a')", "binary": "binary(3)",
    "varbinary": "varbinary(3)", "timestamp": "timestamp NULL",
}  # fmt: skip
"""Types that need arguments or attributes in a column."""


def _columns(session: Session) -> list[str]:
    return [str(row[2]) for row in session.execute("SHOW COLUMNS FROM t")[0].rows][1:]


def _types(name: str) -> list[tuple[str, str]]:
    """Return the types of a server in a page, each with its SinkQL type on the page.

    A cell has types, or groups of types that semicolons separate; `unsigned` applies to the types before it.
    """
    (table,) = re.findall(r"^## Type mapping\n\n.*?\n\|---.*?\n(.*?)\n\n", (_FOLDER / f"{name}.md").read_text(), _ANY)
    found: list[tuple[str, str]] = []
    for line in table.splitlines():
        there, here = [cell.strip() for cell in line.split("|")[1:3]]
        before: list[str] = []
        for group, wanted in zip(there.split(";"), here.split(";"), strict=False):
            types = re.findall(r"`([^`]+)`", group) or [f"{each} unsigned" for each in before]
            given = re.findall(r"`([^`]+)`", wanted) or types
            before = types
            found += zip(types, given if len(given) == len(types) else given * len(types), strict=True)
    return found
