"""The literal of a secret is in no file of the catalog, in no output and in no error."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import sinkql
from session.script import fails
from sinkql import ast
from sinkql.catalog.catalog import ChangedError
from sinkql.catalog.operation import redefining, rotating
from sinkql.catalog.secret.value import SecretInput, SecretValue
from sinkql.errors import SinkqlError, as_data
from sinkql.script.redaction import mask
from sinkql.session import Session
from support.keywords import WORDS

_CANARY = "canary-4b1d07e2"


def test_literal_is_in_no_file_of_the_catalog(session: Session, folder: Path) -> None:
    session.execute(
        f"CREATE SECRET a AS '{_CANARY}'; CREATE SECRET b AS 'canary-' || '4b1d07e2'; DROP SECRET a;"
        f"CREATE CONNECTION w TO AWS (ACCESS KEY ID = SECRET b, SECRET ACCESS KEY = SECRET b);"
    )
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {"catalog.db", "catalog.db.key"} <= {path.name for path in files}
    for path in files:
        assert _CANARY.encode() not in path.read_bytes(), path
    assert session.access.secret("materialize.public.b") == _CANARY


def test_literal_is_not_shown(session: Session) -> None:
    results = session.execute(
        f"CREATE SECRET a AS '{_CANARY}'; SHOW CREATE SECRET a; SHOW REDACTED CREATE SECRET a; SHOW SECRETS;"
        "SELECT * FROM mz_secrets; SELECT * FROM mz_objects;"
        "CREATE CONNECTION w TO AWS (ACCESS KEY ID = 'id', SECRET ACCESS KEY = SECRET a);"
        "SELECT * FROM mz_connections;"
    )
    assert _CANARY not in repr(results)
    assert "'<redacted>'" in str(results[1].rows)


@pytest.mark.parametrize(
    "text",
    [
        f"CREATE SECRET a AS '{_CANARY}' AS;",
        f"CREATE SECRET a '{_CANARY}';",
        f"CREATE SECRET a AS $${_CANARY}$$ nonsense;",
        f"CREATE SECRET a AS E'{_CANARY}' || ;",
        f"CREATE /* x */ SECRET a AS '{_CANARY}",
        f"create secret a as '{_CANARY}' || SECRET b;",
        f"CREATE SECRET a AS nope('{_CANARY}');",
        f"CREATE SECRET there AS '{_CANARY}';",
        f"CREATE SECRET a AS '{_CANARY}'; SHOW nope;",
        f"SHOW SINKS; CREATE SECRET bad.name AS '{_CANARY}';",
        f"CREATE CLUSTER c (SIZE = 'local[2]', CONF = MAP['spark.hadoop.fs.s3a.secret.key' => '{_CANARY}']);",
        f"CREATE CLUSTER c (SIZE = 'local[2]', CONF = MAP['spark.ssl.keyPassword' = '{_CANARY}']);",
        f"ALTER CLUSTER quickstart SET (CONF = MAP['spark.authenticate.secret' => '{_CANARY}']);",
    ],
)
def test_errors_do_not_show_the_literal(session: Session, text: str) -> None:
    session.execute("CREATE SECRET there AS 'another value';")
    error = fails(session, text)
    for shown in (
        error.shown(),
        str(as_data(error)),
        repr(error),
        pickle.dumps(error).decode("latin1"),
        str(error.args),
    ):
        assert _CANARY not in shown
    if "there" in text:
        assert error.code == "SQ2014"


@pytest.mark.parametrize("text", [f"CREATE SECRET a '{_CANARY}';", f"CREATE SECRET a AS nope('{_CANARY}');"])
def test_errors_of_compiling_do_not_show_the_literal(text: str) -> None:
    with pytest.raises(SinkqlError) as raised:
        sinkql.compile(text)
    assert _CANARY not in raised.value.shown() + str(as_data(raised.value))


def test_masked_text_keeps_its_places() -> None:
    text = "SELECT 'kept'; CREATE SECRET a AS 'it''s'; -- CREATE SECRET b AS 'comment'\nSHOW x LIKE 'kept';"
    masked = mask(text, WORDS)
    assert masked.text == text.replace("it''s", "*****")
    assert len(text) == len(masked.text)


def test_value_of_a_stored_secret_is_compared(session: Session) -> None:
    session.execute("CREATE SECRET a AS 'one value';")
    assert [notice.code for notice in session.execute("CREATE SECRET a AS 'one value';")[0].notices] == ["SQ2012"]
    assert fails(session, "CREATE SECRET a AS 'other value';").detail == "its value changes"


def test_references_are_stored_as_they_are(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.execute("CREATE SECRET a AS env_var('SINKQL_TEST_SECRET');")
    assert "env_var('SINKQL_TEST_SECRET')" in str(session.execute("SHOW CREATE SECRET a")[0].rows)
    monkeypatch.setenv("SINKQL_TEST_SECRET", _CANARY)
    assert session.access.secret("materialize.public.a") == _CANARY


def test_secret_that_is_not_there_is_an_error(session: Session) -> None:
    with pytest.raises(SinkqlError) as raised:
        session.access.secret("materialize.public.nope")
    assert raised.value.code == "SQ2001"


def test_program_holds_no_literal() -> None:
    program = sinkql.compile(f"CREATE SECRET a AS '{_CANARY}';")
    assert _CANARY not in program.to_json()
    assert _CANARY not in repr(program)


_OTHER = "canary-rotated-11"


def test_rotated_secret_has_its_new_value_and_keeps_its_users(session: Session, folder: Path) -> None:
    session.execute(
        f"CREATE SECRET a AS '{_CANARY}';"
        "CREATE CONNECTION w TO AWS (ACCESS KEY ID = SECRET a, SECRET ACCESS KEY = SECRET a);"
    )
    before = session.catalog.plans
    session.catalog.change(rotating("materialize.public.a", SecretInput("literal", SecretValue(_OTHER))))
    assert session.access.secret("materialize.public.a") == _OTHER
    with Session(folder) as other:
        assert other.access.secret("materialize.public.a") == _OTHER
        assert other.execute("SHOW CONNECTIONS")[0].rows[0][0] == "w"
    session.catalog.refresh()
    assert session.catalog.plans is not before
    assert all(_OTHER.encode() not in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_rotation_may_change_the_kind(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINKQL_TEST_SECRET", _OTHER)
    session.execute(f"CREATE SECRET a AS '{_CANARY}';")
    session.catalog.change(rotating("materialize.public.a", SecretInput("env_var", arguments=("SINKQL_TEST_SECRET",))))
    assert "env_var('SINKQL_TEST_SECRET')" in str(session.execute("SHOW CREATE SECRET a")[0].rows)
    assert session.access.secret("materialize.public.a") == _OTHER
    session.catalog.change(rotating("materialize.public.a", SecretInput("literal", SecretValue("third"))))
    assert "'<redacted>'" in str(session.execute("SHOW CREATE SECRET a")[0].rows)
    assert session.access.secret("materialize.public.a") == "third"


def test_old_value_put_back_into_the_file_does_not_open(session: Session) -> None:
    session.execute(f"CREATE SECRET a AS '{_CANARY}';")
    with session.catalog.database.read() as connection:
        old = connection.first("SELECT * FROM secrets")
    session.catalog.change(rotating("materialize.public.a", SecretInput("literal", SecretValue(_OTHER))))
    with session.catalog.database.write() as connection:
        connection.update("secrets", {"nonce": old.nonce, "ciphertext": old.ciphertext}, "true")
    with pytest.raises(SinkqlError) as raised:
        session.access.secret("materialize.public.a")
    assert raised.value.code == "SQ4108"


def test_rotation_is_refused_where_the_catalog_moved_or_the_secret_is_gone(session: Session, folder: Path) -> None:
    session.execute(f"CREATE SECRET a AS '{_CANARY}';")
    Session(folder).execute("CREATE SECRET b AS 'x';")
    with pytest.raises(ChangedError):
        session.catalog.change(rotating("materialize.public.a", SecretInput("literal", SecretValue(_OTHER))))
    session.catalog.refresh()
    with pytest.raises(SinkqlError) as raised:
        session.catalog.change(rotating("materialize.public.nope", SecretInput("literal", SecretValue(_OTHER))))
    assert raised.value.code == "SQ2001"
    assert session.access.secret("materialize.public.a") == _CANARY


_WITH_LITERAL = (
    "CREATE SECRET a AS 'x'; CREATE CONNECTION w TO AWS "
    f"(ACCESS KEY ID = '{_CANARY}', SECRET ACCESS KEY = SECRET a, SESSION TOKEN = {_CANARY.replace('-', '_')});"
)


def test_literal_of_an_option_is_in_no_file_and_comes_back(session: Session, folder: Path) -> None:
    session.execute(_WITH_LITERAL)
    for canary in (_CANARY, _CANARY.replace("-", "_")):
        assert all(canary.encode() not in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    with Session(folder) as other:
        properties = dict(other.access.store("materialize.public.w").properties())
        assert properties["s3.access-key-id"] == _CANARY
        assert properties["s3.session-token"] == _CANARY.replace("-", "_")
        assert [notice.code for result in other.execute(_WITH_LITERAL) for notice in result.notices] == ["SQ2012"] * 2
        assert fails(other, _WITH_LITERAL.replace(_CANARY, "another")).code == "SQ2014"


def test_literal_of_an_option_is_not_shown(session: Session) -> None:
    results = session.execute(
        f"{_WITH_LITERAL} SHOW CREATE CONNECTION w; SHOW REDACTED CREATE CONNECTION w; SELECT * FROM mz_connections;"
    )
    assert _CANARY not in repr(results)
    assert all("<sealed" not in repr(result) for result in results)
    assert "ACCESS KEY ID = '<redacted>'" in repr(results[2].rows)


def test_connection_whose_literal_does_not_open_can_be_dropped(session: Session, folder: Path) -> None:
    session.execute(_WITH_LITERAL)
    (folder / ".sinkql" / "catalog.db.key").unlink()
    other = Session(folder)
    assert [notice.code for notice in other.notices] == ["SQ4107"]
    assert _CANARY not in repr(other.execute("SHOW CREATE CONNECTION w; DROP CONNECTION w;"))
    assert Session(folder).notices == ()


def test_hidden_literal_moved_to_another_item_does_not_open(session: Session, folder: Path) -> None:
    session.execute(_WITH_LITERAL + "CREATE CONNECTION v TO AWS (ACCESS KEY ID = 'y', SECRET ACCESS KEY = SECRET a);")
    with session.catalog.database.write() as connection:
        text = connection.scalar("SELECT create_sql FROM items WHERE name = 'w'")
        text = text.replace("public.w", "public.v")
        connection.update("items", {"create_sql": text}, "name = 'v'")
    assert [notice.code for notice in Session(folder).notices] == ["SQ4108"]


def test_hidden_literal_stays_through_a_rename(session: Session, folder: Path) -> None:
    session.execute(_WITH_LITERAL)
    session.catalog.refresh()
    entry = session.catalog.plans.entry("materialize.public.w")
    assert entry is not None
    assert isinstance(entry.statement, ast.CreateConnection)
    new = replace(entry.statement, name=ast.Name(tuple(map(ast.Ident, ("materialize", "public", "z")))))
    session.catalog.change(redefining({entry.name: (new, {})}, session.catalog.reader()))
    assert all(_CANARY.encode() not in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert Session(folder).access.store("materialize.public.z").properties()["s3.access-key-id"] == _CANARY
