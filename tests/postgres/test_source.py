"""CREATE SOURCE … FROM POSTGRES against a real server: the tables that it finds, and its errors with their hints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sinkql import logical
from sinkql.connectors.postgres.facts import check_server
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.postgres import Postgres

pytestmark = pytest.mark.server

_TABLES = """
CREATE SCHEMA other;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TYPE place AS (x integer, y numeric(5, 1));
CREATE DOMAIN price AS numeric(6, 3) NOT NULL;
CREATE TABLE users (id integer PRIMARY KEY, email varchar(90) NOT NULL UNIQUE, name text, code varchar(3),
  tags text[], grid integer[][], ages int4range);
CREATE TABLE odd (m mood, p place, d price, twice integer GENERATED ALWAYS AS (1 + 1) STORED, "At" timestamptz);
ALTER TABLE odd REPLICA IDENTITY FULL;
CREATE TABLE other.users (id integer PRIMARY KEY);
CREATE TABLE parted (id integer, part integer, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE by_index (a integer, b integer NOT NULL);
CREATE UNIQUE INDEX by_b ON by_index (b);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_b;
CREATE TABLE cash (id integer PRIMARY KEY, amount money);
CREATE TABLE keyless (x integer);
CREATE TABLE "Capital" (id integer PRIMARY KEY);
CREATE TABLE nothing (id integer PRIMARY KEY);
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
CREATE TABLE secret (id integer PRIMARY KEY);
CREATE TABLE rows_hidden (id integer PRIMARY KEY);
ALTER TABLE rows_hidden ENABLE ROW LEVEL SECURITY;
CREATE PUBLICATION several FOR TABLE users, odd, other.users, parted, by_index WITH (publish_via_partition_root = true);
CREATE PUBLICATION one FOR TABLE users WHERE (id > 5);
CREATE PUBLICATION every FOR ALL TABLES;
CREATE PUBLICATION inserts FOR TABLE users WITH (publish = 'insert');
CREATE PUBLICATION narrow FOR TABLE users (id, name), odd (m);
GRANT SELECT ON rows_hidden TO reader;
"""


@pytest.fixture(scope="module")
def database(postgres: Postgres) -> Iterator[str]:
    """Create a database with tables of all kinds, and a role that may read some of them."""
    name = postgres.database()
    postgres.execute("CREATE ROLE reader LOGIN REPLICATION; CREATE ROLE plain LOGIN")
    postgres.execute(_TABLES, name)
    yield name
    postgres.drop(name)
    postgres.execute("DROP ROLE reader; DROP ROLE plain")


@pytest.fixture
def session(tmp_path: Path, postgres: Postgres, database: str) -> Iterator[Session]:
    """Open a catalog with a connection to the server for each user."""
    with Session(tmp_path / "catalog.db") as opened:
        for name, user in (("pg", "postgres"), ("reader", "reader"), ("plain", "plain")):
            opened.execute(_connection(name, postgres, database, user))
        yield opened


def _connection(name: str, server: Postgres, database: str, user: str) -> str:
    return (
        f"CREATE CONNECTION {name} TO POSTGRES (HOST '127.0.0.1', PORT {server.port}, DATABASE '{database}', "
        f"USER '{user}');"
    )


def _source(publication: str, clause: str = "", *, connection: str = "pg", options: str = "") -> str:
    return f"CREATE SOURCE s FROM POSTGRES CONNECTION {connection} (PUBLICATION '{publication}'{options}) {clause};"


def _columns(session: Session, name: str) -> list[tuple[object, ...]]:
    (result,) = session.execute(f"SHOW COLUMNS FROM {name};")
    return [tuple(row[:3]) for row in result.rows]


def _shape(session: Session, name: str) -> logical.Shape:
    item = session.catalog.plans.item(f"materialize.public.{name}")
    assert isinstance(item, logical.Source)
    return item.shape


def test_a_table_has_the_columns_and_the_key_of_the_server(session: Session) -> None:
    session.execute(_source("several", "FOR TABLES (public.users AS people)"))
    assert _columns(session, "people") == [
        ("id", False, "integer"),
        ("email", False, "text"),
        ("name", True, "text"),
        ("code", True, "text"),
        ("tags", True, "text[]"),
        ("grid", True, "integer[][]"),
        ("ages", True, "int4range"),
    ]
    shape = _shape(session, "people")
    assert (shape.change, shape.keys) == ("upsert", (frozenset({"id"}), frozenset({"email"})))


def test_a_notice_tells_whose_long_values_are_kept(session: Session) -> None:
    (result,) = session.execute(_source("several", "FOR TABLES (public.users, odd, parted)"))
    (notice,) = (each for each in result.notices if each.code != "SQ2819")
    assert (notice.code, "of public.users only" in notice.message) == ("SQ2817", True)


def test_a_notice_tells_of_generated_columns_and_what_has_them_sent(
    session: Session, postgres: Postgres, database: str
) -> None:
    postgres.execute("DROP PUBLICATION IF EXISTS sums; CREATE PUBLICATION sums FOR TABLE odd, users", database)
    (result,) = session.execute(_source("sums", "FOR TABLES (users)"))
    assert "SQ2819" not in [each.code for each in result.notices]
    session.execute("DROP SOURCE s CASCADE;")
    (result,) = session.execute(_source("sums", "FOR TABLES (odd)"))
    (notice,) = (each for each in result.notices if each.code == "SQ2819")
    assert "has no public.odd.twice" in notice.message
    assert notice.hint is not None
    if not notice.hint.startswith("Run ALTER"):
        assert postgres.execute("SELECT current_setting('server_version_num')::int < 180000") == [(True,)]
        return
    postgres.execute(notice.hint.removeprefix("Run ").partition(";")[0], database)
    (result,) = session.execute("ALTER SOURCE s REFRESH REFERENCES;")
    assert ("twice", True, "integer") in _columns(session, "odd")
    assert result.notices == ()


def test_a_table_without_a_key_has_rows_that_come_and_go(session: Session) -> None:
    session.execute(_source("several", "FOR TABLES (odd)"))
    assert _columns(session, "odd") == [
        ("m", True, "text"),
        ("p", True, "record(x integer, y numeric(38,1))"),
        ("d", True, "numeric(38,3)"),
        ("At", True, "timestamptz"),
    ]
    assert (_shape(session, "odd").change, _shape(session, "odd").keys) == ("retract", ())


def test_the_key_is_that_of_the_replica_identity(session: Session) -> None:
    session.execute(_source("several", "FOR TABLES (by_index, parted)"))
    assert _shape(session, "by_index").keys == (frozenset({"b"}),)
    assert _shape(session, "parted").keys == (frozenset({"id", "part"}),)


def test_all_tables_of_schemas_are_read(session: Session) -> None:
    session.execute(_source("several", "FOR SCHEMAS (other)"))
    (result,) = session.execute("SHOW SUBSOURCES ON s;")
    assert [row[0] for row in result.rows] == ["users"]


def test_tables_are_created_from_a_source_without_for(session: Session) -> None:
    session.execute(_source("every"))
    session.execute(
        "CREATE TABLE t FROM SOURCE s (REFERENCE public.cash) WITH (TEXT COLUMNS (amount));"
        "CREATE TABLE u FROM SOURCE s (REFERENCE public.users) WITH (EXCLUDE COLUMNS (tags, users.grid, email));"
    )
    assert _columns(session, "t") == [("id", False, "integer"), ("amount", True, "text")]
    assert [name for name, *_ in _columns(session, "u")] == ["id", "name", "code", "ages"]


def test_a_source_of_one_table_stands_for_it(session: Session, tmp_path: Path) -> None:
    session.execute(
        _source("one", "FOR TABLES (public.users)")
        + "CREATE MATERIALIZED VIEW v AS SELECT s.id, name FROM s;"
        + f"CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '{tmp_path}/lake');"
        + "CREATE SINK k FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'raw', TABLE 'users') "
        + "KEY (id) ENVELOPE UPSERT WITH (COMMIT INTERVAL = '30s');"
    )
    assert _columns(session, "v") == [("id", False, "integer"), ("name", True, "text")]
    (result,) = session.execute("SHOW CREATE SINK k;")
    assert "FROM materialize.public.users\n" in result.rows[0][1]


_REFUSED = [
    ("SQ2466", _source("several", "FOR SCHEMAS (public, others)"), "Did you mean other?"),
    ("SQ2467", _source("several", "FOR TABLES (users)"), "Write other.users or public.users."),
    ("SQ2806", _source("severel", "FOR ALL TABLES"), 'Did you mean "several"?'),
    ("SQ2807", _source("inserts", "FOR ALL TABLES"), "ALTER PUBLICATION inserts SET (publish = "),
    ("SQ2808", _source("every", "FOR TABLES (secret)", connection="reader"), 'ON TABLE public."secret" TO'),
    ("SQ2808", _source("every", "FOR TABLES (rows_hidden)", connection="reader"), "BYPASSRLS"),
    ("SQ2808", _source("every", "FOR TABLES (other.users)", connection="reader"), "GRANT USAGE ON SCHEMA other TO"),
    ("SQ4411", _source("several", "FOR TABLES (odd)", connection="plain"), "ALTER ROLE name REPLICATION"),
    ("SQ2809", _source("every", "FOR TABLES (keyless)"), "ALTER TABLE public.keyless REPLICA IDENTITY FULL;"),
    ("SQ2809", _source("every", "FOR TABLES (nothing)"), "ALTER TABLE public.nothing REPLICA IDENTITY FULL;"),
    ("SQ2810", _source("narrow", "FOR TABLES (odd)"), "ALTER PUBLICATION"),
    ("SQ2811", _source("every", "FOR TABLES (parted)"), "publish_via_partition_root = true"),
    ("SQ2461", _source("several", "FOR TABLES (public.useres)"), "Did you mean public.users?"),
    ("SQ2461", _source("every", "FOR TABLES (public.Capital)"), 'Write public."Capital": names keep their capitals'),
    ("SQ2002", f"CREATE TABLE odd (a bigint); {_source('several', 'FOR TABLES (odd)')}", "public.odd AS odd_2"),
    ("SQ2812", _source("several", "FOR TABLES (odd)", options=", TEXT COLUMNS (odd.q)"), "Did you mean odd."),
    ("SQ2813", _source("several", "FOR TABLES (odd)", options=", EXCLUDE COLUMNS (public.users.id)"), "create a view"),
    ("SQ2814", _source("every", "FOR TABLES (cash)"), "Add TEXT COLUMNS (public.cash.amount) to the options"),
    (
        "SQ2814",
        f"{_source('every')} CREATE TABLE t FROM SOURCE s (REFERENCE cash);",
        "Write WITH (TEXT COLUMNS (amount))",
    ),
]


@pytest.mark.parametrize(("code", "sql", "hint"), _REFUSED, ids=range(len(_REFUSED)))
def test_what_cannot_be_read_is_refused_with_a_way_out(session: Session, code: str, sql: str, hint: str) -> None:
    with pytest.raises(SinkqlError) as caught:
        session.execute(sql)
    error = caught.value
    assert (error.code, hint in str(error.hint), error.span is not None) == (code, True, True), str(error)


_GOOD = (180000, "logical", False, 10, 0, 10, 0)


@pytest.mark.parametrize(
    ("code", "place", "value"),
    [("SQ2802", 0, 120022), ("SQ2803", 1, "replica"), ("SQ2804", 4, 10), ("SQ2804", 6, 10), ("SQ2805", 2, True)],
)
def test_a_server_that_sends_no_changes_is_refused(code: str, place: int, value: object) -> None:
    row: list[Any] = list(_GOOD)
    row[place] = value
    row[0] = 150000 if code == "SQ2805" else row[0]
    with pytest.raises(SinkqlError) as caught:
        check_server(*row)
    assert caught.value.code == code
    assert check_server(*_GOOD) == _GOOD[0]


def test_tables_come_and_go(session: Session, postgres: Postgres, database: str) -> None:
    session.execute(_source("every", "FOR TABLES (public.users)"))
    session.execute("ALTER SOURCE s ADD TABLE odd AS strange, public.by_index; ALTER SOURCE s DROP TABLE users;")
    (result,) = session.execute("SHOW SUBSOURCES ON s;")
    assert [row[0] for row in result.rows] == ["by_index", "strange"]
    (result,) = session.execute("SHOW CREATE SOURCE s;")
    assert (
        "FOR TABLES (public.odd AS materialize.public.strange, public.by_index AS materialize.public.by_index)"
        in (result.rows[0][1])
    )
    for text, code in (
        ("ALTER SOURCE s ADD TABLE keyless", "SQ2809"),
        ("ALTER SOURCE s ADD TABLE nosuch", "SQ2461"),
        ("CREATE TABLE other (a bigint); ALTER SOURCE s DROP TABLE other", "SQ2468"),
        ("ALTER SOURCE s DROP TABLE users", "SQ2001"),
    ):
        with pytest.raises(SinkqlError) as caught:
            session.execute(f"{text};")
        assert caught.value.code == code, str(caught.value)


def test_new_columns_and_tables_are_taken_in(session: Session, postgres: Postgres, database: str) -> None:
    postgres.execute(
        "CREATE TABLE grows (id integer PRIMARY KEY); CREATE PUBLICATION growing FOR TABLE grows", database
    )
    session.execute(_source("growing", "FOR ALL TABLES"))
    postgres.execute("ALTER TABLE grows ADD COLUMN name text; CREATE TABLE more (id integer PRIMARY KEY)", database)
    postgres.execute("ALTER PUBLICATION growing ADD TABLE more", database)
    session.execute("ALTER SOURCE s REFRESH REFERENCES;")
    assert [name for name, *_ in _columns(session, "grows")] == ["id", "name"]
    assert [name for name, *_ in _columns(session, "more")] == ["id"]
    postgres.execute("DROP PUBLICATION growing; DROP TABLE grows, more", database)


def test_later_tables_that_cannot_be_read_are_left_out_until_they_can(
    session: Session, postgres: Postgres, database: str
) -> None:
    postgres.execute(
        "CREATE SCHEMA later; CREATE TABLE later.t (id integer PRIMARY KEY); CREATE PUBLICATION later FOR TABLES IN "
        "SCHEMA later",
        database,
    )
    session.execute(_source("later", "FOR ALL TABLES"))
    postgres.execute(
        "CREATE TABLE later.keyless (x integer); CREATE TABLE later.pg (id integer PRIMARY KEY);"
        "CREATE TABLE later.v (id integer PRIMARY KEY); CREATE TABLE later.w (id integer PRIMARY KEY)",
        database,
    )
    session.execute("CREATE VIEW v AS SELECT id FROM t;")
    (result,) = session.execute("ALTER SOURCE s REFRESH REFERENCES;")
    assert [(each.code, each.message.partition(":")[0], each.hint) for each in result.notices] == [
        (
            "SQ2478",
            "table later.keyless is left out",
            "Run ALTER TABLE later.keyless REPLICA IDENTITY FULL; on the server, or give the table a PRIMARY KEY. Then "
            "run ALTER SOURCE … REFRESH REFERENCES again.",
        ),
        *(
            (
                "SQ2478",
                f"table later.{name} is left out",
                f"CREATE TABLE later_{name} FROM SOURCE s (REFERENCE later.{name}); reads it under another name.",
            )
            for name in ("pg", "v")
        ),
    ]
    assert _subsources(session) == ["t", "w"]
    postgres.execute("ALTER TABLE later.keyless REPLICA IDENTITY FULL", database)
    session.execute("CREATE TABLE later_v FROM SOURCE s (REFERENCE later.v);")
    (result,) = session.execute("ALTER SOURCE s REFRESH REFERENCES;")
    assert [each.message.partition(":")[0] for each in result.notices] == ["table later.pg is left out"]
    assert _subsources(session) == ["keyless", "t", "w"]
    with pytest.raises(SinkqlError) as caught:
        session.execute("ALTER SOURCE s ADD TABLE later.pg;")
    assert caught.value.code == "SQ2002"
    postgres.execute("DROP PUBLICATION later; DROP SCHEMA later CASCADE", database)


def test_all_tables_that_cannot_be_read_are_told_at_once(session: Session) -> None:
    with pytest.raises(SinkqlError) as caught:
        session.execute(_source("every", "FOR SCHEMAS (public)", options=", EXCLUDE COLUMNS (public.cash.amount)"))
    assert (caught.value.code, "public.nothing cannot be read either." in str(caught.value.hint)) == ("SQ2809", True)


def test_a_sink_is_not_called_as_another_table(session: Session, tmp_path: Path) -> None:
    lake = f"CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '{tmp_path}/lake');"
    session.execute(
        _source("several", "FOR TABLES (by_index AS orders, public.users AS orders_sink, other.users AS orders_sink_2)")
        + lake
    )
    made = "CREATE SINKS FOR ALL TABLES OF SOURCE s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'raw')"
    session.execute(f"{made} WITH (COMMIT INTERVAL = '1s');")
    found = [name.rpartition(".")[2] for name in session.sinks()]
    assert found == ["orders_sink_2_sink", "orders_sink_3", "orders_sink_sink"]
    session.execute(f"{made} WITH (COMMIT INTERVAL = '1s');")
    assert len(session.sinks()) == 3


def _subsources(session: Session) -> list[str]:
    (result,) = session.execute("SHOW SUBSOURCES ON s;")
    return [str(row[0]) for row in result.rows]


def test_relations_tell_the_slot_and_the_tables_upstream(session: Session) -> None:
    session.execute(_source("several", "FOR TABLES (public.users AS people)") + "ALTER SOURCE s SET (KEEP = 'log');")
    (slot,) = session.execute("SELECT replication_slot FROM mz_internal.mz_postgres_sources;")
    assert str(slot.rows[0][0]).startswith("sinkql_")
    (tables,) = session.execute("SELECT schema_name, table_name FROM mz_internal.mz_postgres_source_tables;")
    assert tables.rows == (("public", "users"),)
    (shown,) = session.execute("SHOW CREATE SOURCE s;")
    assert "WITH (KEEP = 'log')" in shown.rows[0][1]
    item = session.catalog.plans.item("materialize.public.people")
    assert isinstance(item, logical.Source)
    assert item.options["tuning"]["keeping"]["keep"] == "log"
