"""SELECT over system relations, and SHOW."""

from __future__ import annotations

import pytest

from session.script import NAME, PIPELINE, SINK, fails, sink_id
from sinkql.catalog.system.show import LISTINGS
from sinkql.errors import SinkqlError
from sinkql.session import Session

_STATUS_QUERY = """
SELECT
    s.name,
    s.type,
    ss.status,
    ss.error
FROM mz_sinks s
JOIN mz_internal.mz_sink_statuses ss ON s.id = ss.id
WHERE s.name = 'user_activity_iceberg';
"""
_DETAIL_QUERY = """
SELECT
    id,
    namespace,
    table
FROM mz_catalog.mz_iceberg_sinks
WHERE id = (SELECT id FROM mz_sinks WHERE name = 'user_activity_iceberg');
"""


@pytest.fixture
def piped(session: Session) -> Session:
    session.execute(PIPELINE)
    return session


def _rows(session: Session, text: str) -> list[tuple[object, ...]]:
    return list(session.execute(text)[-1].rows)


def test_monitoring_queries_run_as_the_guide_writes_them(piped: Session) -> None:
    owner, control = "runner", piped.catalog.control
    control.acquire(sink_id(piped), owner=owner, takeover=False)
    control.status(sink_id(piped), "stalled", owner=owner, error="no such file")
    assert _rows(piped, _STATUS_QUERY) == [("user_activity_iceberg", "iceberg", "stalled", "no such file")]
    assert _rows(piped, _DETAIL_QUERY) == [("u3", "analytics", "user_activity")]


def test_sink_that_never_ran_is_created(piped: Session) -> None:
    assert _rows(piped, _STATUS_QUERY) == [("user_activity_iceberg", "iceberg", "created", None)]


def test_sink_whose_runner_vanished_is_failed(piped: Session) -> None:
    control = piped.catalog.control
    control.acquire(sink_id(piped), owner="runner", takeover=False)
    control.status(sink_id(piped), "running", owner="runner")
    assert _rows(piped, "SELECT status FROM mz_internal.mz_sink_statuses") == [("running",)]
    control.release(sink_id(piped), owner="runner")
    ((status, error),) = _rows(piped, "SELECT status, error FROM mz_internal.mz_sink_statuses")
    assert status == "failed"
    assert str(error).startswith("the process that ran it is gone (pid ")


def test_pipeline_is_in_its_relations(piped: Session) -> None:
    piped.execute("CREATE MATERIALIZED VIEW m AS SELECT counter AS c FROM n WHERE counter > 3;")
    assert _rows(piped, "SELECT name, type FROM mz_objects WHERE id LIKE 'u%' ORDER BY id;") == [
        ("lake", "connection"),
        ("n", "source"),
        ("user_activity_iceberg", "sink"),
        ("m", "materialized-view"),
    ]
    assert _rows(piped, "SELECT o.name, c.name, c.type FROM mz_columns c JOIN mz_sources o USING (id)") == [
        ("n", "counter", "bigint"),
    ]
    assert _rows(
        piped,
        "SELECT s.name, c.name, k.name, s.envelope_type FROM mz_sinks s JOIN mz_connections c ON c.id = s.connection_id"
        " JOIN mz_clusters k ON k.id = s.cluster_id",
    ) == [("user_activity_iceberg", "lake", "quickstart", "none")]
    assert _rows(piped, "SELECT count(*) FROM mz_internal.mz_object_dependencies") == [(3,)]


def test_statistics_and_progress_are_those_of_the_commits(piped: Session) -> None:
    control = piped.catalog.control
    control.committed(sink_id(piped), rows=4, size=40, offsets={"materialize.public.n": {"count": 4}}, epoch=1)
    control.committed(sink_id(piped), rows=6, size=60, offsets={"n": {"count": 10}}, epoch=1)
    query = "SELECT messages_committed, bytes_committed FROM mz_internal.mz_sink_statistics"
    assert _rows(piped, query) == [(10, 100)]
    assert _rows(piped, "SELECT commits, offsets FROM mz_internal.mz_sink_progress") == [(2, '{"n": {"count": 10}}')]


def test_history_is_of_the_sink(piped: Session) -> None:
    control = piped.catalog.control
    for status in ("starting", "running"):
        control.status(sink_id(piped), status)
    rows = _rows(piped, "SELECT sink_id, status FROM mz_internal.mz_sink_status_history ORDER BY occurred_at")
    assert rows == [("u3", "starting"), ("u3", "running")]


@pytest.mark.parametrize(
    ("query", "code", "under", "hint"),
    [
        ("SELECT nam FROM mz_sinks", "SQ2204", "nam", 'Did you mean "name"?'),
        ("SELECT s.nam FROM mz_sinks s", "SQ2204", "nam", 'Did you mean "name"?'),
        ("SELECT z.name FROM mz_sinks s", "SQ2202", "z", "Use a name from FROM."),
        ("SELECT 1 FROM mz_sinks ORDER BY nam", "SQ2204", "nam", 'Did you mean "name"?'),
        ("SELECT id FROM mz_sinks a JOIN mz_sources b ON true", "SQ2205", "id", "Name the relation: mz_sinks.id."),
        ("SELECT 1 FROM mz_sink", "SQ2202", "mz_sink", "Did you mean mz_catalog.mz_sinks?"),
        ("SELECT 1 FROM mz_sink_statuses", "SQ2202", "mz_sink_statuses", "Write mz_internal.mz_sink_statuses."),
        ("SELECT 1 FROM mz_internal.mz_sinks", "SQ2202", "mz_sinks", "Did you mean mz_catalog.mz_sinks?"),
        ("SELECT nam FROM n, mz_sinks", "SQ2204", "nam", None),
        ("SHOW SINKS WHERE name IN (SELECT counter FROM n)", "SQ2980", "n", None),
        ("SELECT 1 FROM secrets", "SQ2202", "secrets", None),
        ("SELECT 1 FROM sqlite_master", "SQ2202", "sqlite_master", None),
        ("SELECT 1 FROM pragma_table_info('secrets')", "SQ2928", "pragma_table_info('secrets')", None),
        ("WITH c AS (SELECT 1 AS x FROM items) SELECT x FROM c", "SQ2202", "items", None),
        ("SELECT name, FROM mz_sinks", "SQ2201", "FROM", None),
        ("SELECT load_extension('x')", "SQ2210", "load_extension('x')", None),
        ("SELECT version(), load_extension('x')", "SQ2210", "load_extension('x')", None),
    ],
)
def test_mistakes_in_a_query_are_shown(
    piped: Session, query: str, code: str, under: str | None, hint: str | None
) -> None:
    text = f"SHOW SINKS; {query};"
    error = fails(piped, text)
    assert error.span is not None
    assert (code, under or query) == (error.code, text[error.span.start : error.span.end])
    if hint is not None:
        assert hint == error.hint
    assert "script.sql:1:" in error.shown()


def test_a_query_changes_nothing(piped: Session) -> None:
    for text in ("SELECT 1; DELETE FROM mz_sinks;", "WITH d AS (DELETE FROM items RETURNING 1) SELECT 1;"):
        with pytest.raises(SinkqlError):
            piped.execute(text)
    assert _rows(piped, "SHOW SINKS") != []


def test_like_minds_the_case_and_ilike_does_not(piped: Session) -> None:
    query = "SELECT name FROM mz_clusters WHERE name {} 'QUICK%';"
    assert _rows(piped, query.format("LIKE")) == []
    assert _rows(piped, query.format("ILIKE")) == [("quickstart",)]


def test_outputs_without_a_name_get_one(session: Session) -> None:
    result = session.execute("SELECT count(*), max(name), name || 'x' FROM mz_clusters GROUP BY name;")[0]
    assert result.columns == ("count", "max", "?column?")


@pytest.mark.parametrize(
    ("written", "computed", "shown"),
    [
        ("date '0012-03-15'", "x + 1", "0012-03-16"),
        ("timestamp '0012-03-15 01:02:03.5'", "x + INTERVAL '1 day'", "0012-03-16 01:02:03.500000"),
        ("timestamptz '0012-03-15 01:02:03+00'", "x + INTERVAL '1 day'", "0012-03-16 01:02:03.000000+00:00"),
    ],
)
def test_years_before_1000_stay(session: Session, written: str, computed: str, shown: str) -> None:
    query = f"SELECT {computed} AS y FROM (SELECT {written} AS x FROM mz_catalog.mz_databases) t"
    assert _rows(session, query) == [(shown,)]


def test_show_lists_a_kind(piped: Session) -> None:
    (result,) = piped.execute("SHOW SINKS")
    assert result.columns == ("name", "type", "cluster", "last_batch", "comment")
    assert result.rows == (("user_activity_iceberg", "iceberg", "quickstart", None, ""),)
    assert _rows(piped, "SHOW SOURCES FROM materialize.public") == [("n", "load-generator", None, "")]
    assert _rows(piped, "SHOW CONNECTIONS") == [("lake", "iceberg-catalog", "")]
    for kind in ("SECRETS", "VIEWS", "MATERIALIZED VIEWS"):
        assert _rows(piped, f"SHOW {kind}") == []


def test_show_and_status_name_where_the_last_batch_ran(piped: Session) -> None:
    (job,) = piped.jobs()
    shown = []
    for in_spark in (True, False):
        piped.catalog.control.committed(job.sink_id, rows=1, size=1, offsets={}, epoch=1, in_spark=in_spark)
        columns, (row,) = piped.status()
        (listed,) = _rows(piped, "SHOW SINKS WHERE last_batch IS NOT NULL")
        shown.append((row[columns.index("last_batch")], listed[3]))
        assert _rows(piped, "SELECT last_batch FROM mz_internal.mz_sink_progress") == [(listed[3],)]
    assert shown == [("Spark", "Spark"), ("in process", "in process")]


def test_show_gives_the_same_with_a_condition_that_all_fulfil(piped: Session) -> None:
    piped.execute("CREATE CLUSTER small (SIZE = 'local[1]'); CREATE VIEW v AS SELECT counter FROM n;")
    piped.execute("COMMENT ON COLUMN v.counter IS 'how many'; CREATE SECRET s AS 'x';")
    of = {"COLUMNS": " FROM v"}
    for kind in LISTINGS:
        (plain,) = piped.execute(f"SHOW {kind}{of.get(kind, '')}")
        (filtered,) = piped.execute(f"SHOW {kind}{of.get(kind, '')} WHERE true")
        assert (plain.columns, repr(plain.rows)) == (filtered.columns, repr(filtered.rows))


def test_show_filters(piped: Session) -> None:
    piped.execute("CREATE CLUSTER small (SIZE = 'local[1]');")
    assert _rows(piped, "SHOW CLUSTERS LIKE 's%'") == [("small", "r1 (local[1])", "0 sinks running", "")]
    assert [row[:1] for row in _rows(piped, "SHOW CLUSTERS WHERE name <> 'small'")] == [("quickstart",)]
    assert _rows(piped, "SHOW SINKS IN CLUSTER small") == []
    assert len(_rows(piped, "SHOW SINKS IN CLUSTER quickstart WHERE type = 'iceberg'")) == 1


@pytest.mark.parametrize(
    ("text", "code", "under"),
    [
        ("SHOW SINKS WHERE nam = 'x';", "SQ2204", "nam"),
        ("SHOW SINKS IN CLUSTER nope;", "SQ2313", "nope"),
        ("SHOW SINKS FROM nope;", "SQ2004", "nope"),
        ("SHOW CREATE SINK nope;", "SQ2001", "nope"),
        ("SHOW CREATE CLUSTER nope;", "SQ2313", "nope"),
        ("SHOW nope;", "SQ2630", "nope"),
    ],
)
def test_mistakes_in_show_are_shown(piped: Session, text: str, code: str, under: str) -> None:
    error = fails(piped, text)
    assert error.span is not None
    assert (code, under) == (error.code, text[error.span.start : error.span.end])


def test_show_create_prints_what_creates_the_same_again(piped: Session) -> None:
    ((name, text),) = _rows(piped, "SHOW CREATE SINK user_activity_iceberg")
    assert name == NAME
    (again,) = piped.execute(str(text))
    assert [notice.code for notice in again.notices] == ["SQ2012"]
    (same,) = piped.execute(SINK)
    assert again.names == same.names


def test_settings_are_shown(session: Session) -> None:
    assert _rows(session, "SHOW enable_iceberg_sink") == [("true",)]
    session.execute("ALTER SYSTEM SET enable_iceberg_sink = false; SET cluster = other;")
    assert _rows(session, "SHOW enable_iceberg_sink") == [("false",)]
    assert ("cluster", "other") in _rows(session, "SHOW ALL")
    fresh = Session()
    assert ("enable_iceberg_sink", "false") in _rows(fresh, "SHOW ALL")
    assert ("cluster", "quickstart") in _rows(fresh, "SHOW ALL")


def test_every_change_of_items_is_on_record(piped: Session) -> None:
    piped.execute("CREATE VIEW v AS SELECT counter FROM n; DROP VIEW v;")
    events = _rows(piped, "SELECT event_type, object_type, user FROM mz_audit_events ORDER BY id")
    created = [("create", kind, "materialize") for kind in ("connection", "source", "sink", "view")]
    assert events == [*created, ("drop", "view", "materialize")]
    lifetimes = "SELECT id, event_type FROM mz_internal.mz_object_lifetimes WHERE object_type = 'view'"
    assert _rows(piped, lifetimes) == [("u4", "create"), ("u4", "drop")]


def test_a_source_is_as_well_as_the_worst_sink_that_reads_it(piped: Session) -> None:
    query = "SELECT name, status, error FROM mz_internal.mz_source_statuses"
    assert _rows(piped, query) == [("n", "created", None)]
    piped.execute(
        "CREATE MATERIALIZED VIEW m AS SELECT counter FROM n;"
        + SINK.replace("user_activity_iceberg", "k2").replace("FROM n", "FROM m").replace("user_activity'", "k2'")
    )
    control = piped.catalog.control
    control.status(sink_id(piped), "running")
    control.status(piped.jobs(["k2"])[0].sink_id, "stalled", error="no such file")
    assert _rows(piped, query) == [("n", "stalled", "no such file")]
    control.committed(sink_id(piped), rows=4, size=40, offsets={"materialize.public.n": {"count": 4}}, epoch=1)
    statistics = "SELECT updates_committed, bytes_received FROM mz_internal.mz_source_statistics"
    assert _rows(piped, statistics) == [(4, 40)]


def test_names_are_told_in_full(piped: Session) -> None:
    query = (
        "SELECT name, object_type, schema_name, database_name FROM mz_internal.mz_object_fully_qualified_names"
        " WHERE id = 'u1'"
    )
    assert _rows(piped, query) == [("lake", "connection", "public", "materialize")]


def test_stalls_are_notices(piped: Session) -> None:
    piped.catalog.control.status(sink_id(piped), "stalled", error="no such file", hint="Put it back.")
    query = "SELECT notice_type, message, hint FROM mz_internal.mz_notices"
    assert _rows(piped, query) == [("Sink stalled", "no such file", "Put it back.")]


def test_source_statistics_are_those_of_its_slowest_sinks_and_of_all_its_tables(session: Session) -> None:
    session.execute(
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'memory') WITH (VALIDATE = false);"
        "CREATE SOURCE a FROM LOAD GENERATOR AUCTION FOR TABLES (bids, users);"
        "CREATE SOURCE n FROM LOAD GENERATOR COUNTER;"
        + "".join(
            f"CREATE SINK {name} FROM {source} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'x', TABLE = '{name}')"
            " MODE APPEND WITH (COMMIT INTERVAL = '1m');"
            for name, source in (("b1", "bids"), ("b2", "bids"), ("u", "users"), ("c", "n"))
        )
    )
    control = session.catalog.control
    public = "materialize.public"
    session.execute("ALTER SOURCE n RENAME TO m")
    for sink, source, figures in (
        ("b1", "bids", {"known": 90, "committed": 50, "unit": "rows", "rows": 40, "of_rows": 60, "done": False}),
        ("b2", "bids", {"known": 95, "committed": 40, "unit": "rows", "rows": 60, "of_rows": 60, "done": True}),
        ("u", "users", {"known": 5, "committed": 5, "unit": "rows", "rows": 7, "of_rows": 7, "done": True}),
        ("c", "n", {"known": 9, "committed": 4, "unit": "rows"}),
    ):
        control.measured(session.jobs([sink])[0].sink_id, {f"{public}.{source}": figures})
    columns = "snapshot_records_known, snapshot_records_staged, snapshot_committed, offset_known, offset_committed"
    statistics = (
        f"SELECT o.name, {columns} FROM mz_internal.mz_source_statistics s JOIN mz_objects o ON o.id = s.id"
        " ORDER BY o.name"
    )
    assert _rows(session, statistics) == [
        ("a", 67, 47, False, 100, 45),
        ("bids", 60, 40, False, 95, 40),
        ("m", None, None, None, 9, 4),
        ("users", 7, 7, True, 5, 5),
    ]
    progress = (
        "SELECT o.name, behind, unit, consistent FROM mz_internal.mz_source_progress s JOIN mz_objects o ON o.id = s.id"
    )
    assert sorted(_rows(session, progress), key=str) == [
        ("a", 55, "rows", False), ("bids", 55, "rows", False), ("m", 5, "rows", None), ("users", 0, "rows", True),
    ]  # fmt: skip
    names, rows = session.status()
    found = [dict(zip(names, row, strict=True)) for row in rows]
    assert [(each["name"], each["snapshot"], each["behind"]) for each in found] == [
        ("b1", "40 of about 60", "40 rows"), ("b2", None, "55 rows"), ("c", None, "5 rows"), ("u", None, "0 rows"),
    ]  # fmt: skip


def test_table_that_takes_requests_is_a_source(session: Session) -> None:
    session.execute("CREATE TABLE w FROM WEBHOOK BODY FORMAT JSON")
    for relation in ("statuses", "statistics", "progress"):
        query = f"SELECT o.name FROM mz_internal.mz_source_{relation} AS s JOIN mz_objects AS o ON o.id = s.id"
        assert _rows(session, query) == [("w",)]
