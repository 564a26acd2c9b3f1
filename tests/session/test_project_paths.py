"""Relative paths of items are resolved in the project's folder, and a user's paths in the working folder.

Each option that is declared as a path has a case here, or a test fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from session.script import fails
from sinkql import physical
from sinkql.catalog.address import Address, address_of, project_of
from sinkql.connector_api.option_help import OptionHelp, offered
from sinkql.connector_api.registry import discover
from sinkql.connectors.iceberg.table.catalog import located_url
from sinkql.errors import SinkqlError
from sinkql.local_path import in_project
from sinkql.planner.item.connection import ClusterOptions
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script

_PLACE = re.compile(r"\b(folder|folders|file|path|directory)\b", re.IGNORECASE)
_NO_PLACES = {
    ("FILES", "GLOB"),
    ("MYSQL", "LOG"),
    ("POSTGRES", "LOG"),
    ("WEBHOOK", "LOG"),
}
"""Options whose help mentions files, but whose values are no local paths: a pattern, a bucket."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project's folder with files, which is not the working folder."""
    folder = tmp_path / "project"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "a.json").write_text('{"id": 1, "name": "of the project"}\n')
    (folder / "key").write_text("of the project\n")
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make another folder with files of the same names the working folder; it must stay unchanged."""
    folder = tmp_path / "elsewhere"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "a.json").write_text('{"id": 2, "name": "of another", "more": 3}\n')
    (folder / "key").write_text("of another\n")
    before = _names(folder)
    monkeypatch.chdir(folder)
    yield folder
    assert _names(folder) == before


@pytest.fixture
def session(project: Path, elsewhere: Path) -> Iterator[Session]:
    with Session(project) as session:
        yield session


def _names(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))


# --- each option that is a path -------------------------------------------------------------------------------------


def _files(session: Session, project: Path) -> None:
    session.execute("CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT JSON;")
    (rows,) = session.execute("SELECT * FROM s;")
    assert (rows.columns, rows.rows) == (("id", "name"), ((1, "of the project"),))
    (shown,) = session.execute("SHOW CREATE SOURCE s;")
    assert "PATH = 'in'" in shown.rows[0][1]  # as written, so that the project can be moved


def _warehouse(session: Session, project: Path) -> None:
    session.execute("CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');")
    session.execute("VALIDATE CONNECTION lake;")
    assert (project / "lake" / "catalog.db").is_file()


def _state(session: Session, project: Path) -> None:
    error = fails(session, "CREATE CLUSTER c (SIZE = 'local[2]', STATE = 'state');")
    assert (error.code, error.hint is not None and "absolute path" in error.hint) == ("SQ2615", True)


_CASES: dict[tuple[str, str], Callable[[Session, Path], None]] = {
    ("FILES", "PATH"): _files,
    ("ICEBERG CATALOG", "WAREHOUSE"): _warehouse,
    ("CLUSTER", "STATE"): _state,
}


@pytest.mark.parametrize("case", _CASES, ids=" ".join)
def test_a_relative_path_begins_in_the_folder_of_the_project(
    case: tuple[str, str], session: Session, project: Path
) -> None:
    _CASES[case](session, project)


def _declared() -> Iterator[tuple[str, OptionHelp]]:
    """Yield all options of connectors and clusters, each with its kind."""
    known = discover()
    for kinds in (known.connections, known.sources, known.sinks, known.formats, known.messages):
        for name, kind in kinds.items():
            for options in (getattr(kind, "options", None), getattr(kind, "with_options", None)):
                yield from ((name, each) for each in offered(options))
    yield from (("CLUSTER", each) for each in offered(ClusterOptions))


def test_each_option_that_is_declared_a_path_has_a_case() -> None:
    assert {(kind, option.label) for kind, option in _declared() if option.local_path} == set(_CASES)


def test_an_option_that_speaks_of_files_is_declared_a_path() -> None:
    texts = [(kind, each) for kind, each in _declared() if each.takes == "text" and _PLACE.search(each.help)]
    assert {(kind, each.label) for kind, each in texts if not each.local_path} == _NO_PLACES


def test_only_one_module_makes_paths_whole() -> None:
    """A connector must not use the working folder: it has no meaning for items."""
    found = re.compile(r"\bcwd\b|getcwd|\.absolute\(\)|abspath|expanduser|Path\.home|chdir")
    root = Path(physical.__file__).parents[1]
    named = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if found.search(path.read_text())}
    assert {
        each
        for each in named
        if each.startswith(("connectors/", "connector_api/", "object_store/", "state_store/", "capture/"))
    } == {
        "capture/log.py",  # the capture's holder, by the folder of the catalog
        "capture/object_log_store.py",
        "connectors/files/plan.py",  # a sample without a catalog
        "connector_api/stream/context.py",  # a job without a catalog
    }


# --- paths outside of options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["sqlite:///db/lake.db", "sqlite:///file:db/lake.db?uri=true"])
def test_the_file_of_a_sqlite_url(url: str, session: Session, project: Path) -> None:
    (project / "db").mkdir()
    options = f"CATALOG TYPE = 'sql', URL = '{url}', WAREHOUSE = 'lake'"
    session.execute(f"CREATE CONNECTION lake TO ICEBERG CATALOG ({options});")
    assert (project / "db" / "lake.db").is_file()


def test_the_certificates_of_a_database_url() -> None:
    url = make_url(
        "postgresql+psycopg://u@host/db?sslmode=verify-ca&sslrootcert=ca.pem&sslcert=/whole.pem&sslkey=~/key"
    )
    assert dict(located_url(url, lambda path: in_project(path, Path("/p"))).query) == {
        "sslmode": "verify-ca",
        "sslrootcert": "/p/ca.pem",
        "sslcert": "/whole.pem",
        "sslkey": os.path.expanduser("~/key"),
    }


def test_the_file_of_a_secret(session: Session, project: Path) -> None:
    session.execute("CREATE SECRET s AS file('key');")
    assert session.access.secret("materialize.public.s") == "of the project"
    (project / "key").unlink()
    with pytest.raises(SinkqlError, match=re.escape(f'file "{project}/key" of secret "s"')):
        session.access.secret("materialize.public.s")


def test_a_script_is_planned_with_the_files_of_the_project(session: Session) -> None:
    text = "CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT JSON;"
    apply(plan_deployment([Script("a.sql", text)], session), session)
    (rows,) = session.execute("SELECT * FROM s;")
    assert (rows.columns, rows.rows) == (("id", "name"), ((1, "of the project"),))
    assert plan_deployment([Script("a.sql", text)], session).steps == ()


def test_a_transaction_has_the_paths_of_its_catalog(session: Session) -> None:
    session.execute("BEGIN; CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT JSON; COMMIT;")
    (rows,) = session.execute("SELECT name FROM s;")
    assert rows.rows == (("of the project",),)


def test_a_project_that_moves_takes_its_files_along(session: Session, project: Path) -> None:
    session.execute("CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT JSON; CREATE SECRET k AS file('key');")
    session.close()
    with Session(project.rename(project.with_name("moved"))) as moved:
        (rows,) = moved.execute("SELECT name FROM s;")
        assert (rows.rows, moved.access.secret("materialize.public.k")) == ((("of the project",),), "of the project")


# --- what a user types begins where the user is ---------------------------------------------------------------------


def test_a_path_in_a_query_begins_in_the_working_folder(session: Session) -> None:
    for text in ("SELECT name FROM 'in/a.json';", "SELECT name FROM read_json('in');"):
        (rows,) = session.execute(text)
        assert rows.rows == (("of another",),)


# --- where a project is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("catalog", "expected"),
    [
        (Path("/p/.sinkql/catalog.db"), Path("/p")),
        (Path("/p/.sinkql/other.db"), Path("/p")),
        (Path("/p/shop.db"), Path("/p")),
        (address_of("sqlite:////p/.sinkql/catalog.db"), Path("/p")),
        (address_of("postgresql://host/db?folder=/p/.sinkql"), Path("/p")),
        (address_of("postgresql://host/db?folder=/p/kept"), Path("/p/kept")),
    ],
    ids=str,
)
def test_a_project_is_the_folder_that_has_the_catalogs(catalog: Address, expected: Path) -> None:
    assert project_of(catalog) == expected


def test_without_a_name_the_project_is_the_working_folder(elsewhere: Path) -> None:
    for named in (None, ".sinkql/catalog.db", "catalog.db", "postgresql://host/db"):
        assert project_of(address_of(named)) == elsewhere
