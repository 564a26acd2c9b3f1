"""EXPLAIN names the materialized views that a job computes itself, with the reason."""

from __future__ import annotations

from pathlib import Path

from sinkql.session import Session
from view.test_view_jobs import run, sink

_SAYS = "computes materialized view "


def explained(session: Session, what: str) -> list[str]:
    (result,) = session.execute(f"EXPLAIN PHYSICAL PLAN FOR {what}")
    return [line.strip() for (line,) in result.rows]


def computed(session: Session, what: str) -> list[str]:
    return [line.removeprefix(_SAYS) for line in explained(session, what) if line.startswith(_SAYS)]


def why(session: Session, view: str) -> list[str]:
    says = "is inlined into its readers: "
    lines = explained(session, f"MATERIALIZED VIEW {view}")
    return [line.removeprefix(says) for line in lines if line.startswith(says)]


def test_a_view_of_one_reader(session: Session) -> None:
    assert why(session, "v") == ["no job reads it yet"]
    sink(session, "a", "large")
    assert computed(session, "SINK a") == ["large: only sink a reads it", "v: only sink a reads it"]
    assert why(session, "v") == ["only sink a reads it"]
    sink(session, "b", "large")
    assert computed(session, "SINK a") == []
    assert "is a job: it became one for a second reader or an index, and stays one" in explained(
        session, "MATERIALIZED VIEW large"
    )
    assert computed(session, "MATERIALIZED VIEW large") == ["v: only materialized view large reads it"]
    assert why(session, "v") == ["only materialized view large reads it"]


def test_a_view_of_which_nothing_is_kept(session: Session) -> None:
    session.execute("CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE MATERIALIZED VIEW w AS SELECT counter FROM n")
    for name in ("a", "b"):
        sink(session, name, "w", "MODE APPEND")
    assert computed(session, "SINK a") == ["w: it keeps no state"]
    assert why(session, "w") == ["it keeps no state"]


def test_a_view_with_a_source_in_common_that_can_be_read_up_to_no_tick(session: Session, tmp_path: Path) -> None:
    session.execute(
        f"CREATE SOURCE f (g int, x int) FROM FILES (PATH = '{tmp_path}') FORMAT JSON;"
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g, max(x) AS m FROM f GROUP BY g;"
        "CREATE MATERIALIZED VIEW mixed AS SELECT g, m FROM w UNION ALL SELECT g, x FROM f"
    )
    sink(session, "a", "mixed", "MODE APPEND")
    assert computed(session, "SINK a") == [
        "mixed: only sink a reads it",
        "w: source f is also below another input of this sink, and the view's log would be at another position",
    ]


_TICKS = """
CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g, max(x) AS m FROM t GROUP BY g;
CREATE MATERIALIZED VIEW w2 WITH (COMMIT INTERVAL = '1s') AS SELECT g, min(x) AS m FROM t GROUP BY g;
CREATE MATERIALIZED VIEW alone WITH (COMMIT INTERVAL = '1s') AS SELECT g, count(*) AS n FROM other GROUP BY g;
CREATE MATERIALIZED VIEW mixed AS SELECT w.g, w.m, t.x, alone.n FROM w JOIN t ON t.g = w.g JOIN alone
  ON alone.g = w.g;
"""


def ticks(session: Session, what: str) -> list[str]:
    return [line for line in explained(session, what) if line.startswith("reads ")]


def test_what_shares_a_source_is_read_at_ticks(session: Session) -> None:
    session.execute(_TICKS)
    sink(session, "a", "mixed", "MODE APPEND")
    sink(session, "b", "w", "MODE APPEND")
    assert computed(session, "SINK a") == ["mixed: only sink a reads it"]
    assert ticks(session, "SINK a") == ["reads at one tick: materialize.public.w, materialize.public.t"]
    assert ticks(session, "SINK b") == []
    assert ticks(session, "MATERIALIZED VIEW w") == ["reads up to common ticks: materialize.public.t"]
    assert ticks(session, "MATERIALIZED VIEW alone") == []


def test_a_view_of_a_source_that_no_other_job_reads_does_without_ticks(session: Session) -> None:
    session.execute(_TICKS)
    session.execute("DROP MATERIALIZED VIEW mixed")
    assert ticks(session, "MATERIALIZED VIEW w") == ["reads up to common ticks: materialize.public.t"]
    session.execute("DROP MATERIALIZED VIEW w2")
    assert ticks(session, "MATERIALIZED VIEW w") == []


def test_a_sink_of_the_rows_to_come_begins_at_no_tick(session: Session) -> None:
    session.execute(
        "CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE SOURCE n2 FROM LOAD GENERATOR COUNTER;"
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT n.counter FROM n JOIN n2 USING (counter);"
        "CREATE MATERIALIZED VIEW mixed AS SELECT n.counter FROM w JOIN n USING (counter);"
    )
    into = "INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{0}') MODE APPEND"
    session.execute(f"CREATE SINK a FROM mixed {into.format('a')} WITH (COMMIT INTERVAL = '1s', SNAPSHOT = false)")
    assert computed(session, "SINK a") == [
        "mixed: only sink a reads it",
        "w: source n is also below another input of this sink, and the view's log would be at another position",
    ]


def test_views_with_the_time_in_common(session: Session) -> None:
    session.execute(
        "CREATE TABLE e (g int, at timestamp);"
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g FROM e WHERE mz_now() < at;"
        "CREATE MATERIALIZED VIEW mixed AS SELECT w.g FROM w JOIN other AS o ON o.g = w.g"
        " WHERE mz_now() < '2100-01-01'::timestamp"
    )
    assert ticks(session, "MATERIALIZED VIEW w") == []
    sink(session, "a", "mixed", "MODE APPEND")
    assert computed(session, "SINK a") == ["mixed: only sink a reads it"]
    assert ticks(session, "SINK a") == ["reads at one tick: materialize.public.w, mz_now()"]
    assert ticks(session, "MATERIALIZED VIEW w") == ["reads up to common ticks: mz_now()"]


def test_a_view_whose_options_or_index_ask_for_a_job(session: Session) -> None:
    session.execute(
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g, max(x) AS m FROM t GROUP BY g"
    )
    assert "is a job: its options ask for one" in explained(session, "MATERIALIZED VIEW w")
    session.execute("CREATE INDEX ON v (g)")
    assert "is a job: an index on it needs one" in explained(session, "MATERIALIZED VIEW v")


def test_a_sink_that_had_begun(session: Session) -> None:
    sink(session, "a")
    run(session)
    sink(session, "b")
    assert computed(session, "SINK a") == ["v: this sink had already started when the view became a job"]
    assert computed(session, "SINK b") == []


def test_a_view_of_a_source_with_dead_letters(session: Session, tmp_path: Path) -> None:
    session.execute(
        f"CREATE SOURCE f (g int) FROM FILES (PATH = '{tmp_path}') FORMAT JSON"
        " WITH (ON ERROR = 'DEAD LETTER');"
        "CREATE MATERIALIZED VIEW w AS SELECT g, count(*) AS n FROM f GROUP BY g"
    )
    sink(session, "a", "w")
    assert computed(session, "SINK a") == ["w: failed records of source f become dead letters of one sink"]


def test_a_sink_that_is_not_created_reads_the_logs_that_there_are(session: Session) -> None:
    session.execute(
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g, max(x) AS m FROM t GROUP BY g"
    )
    lines = explained(
        session,
        "CREATE SINK a FROM w INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a')"
        " KEY (g) MODE UPSERT WITH (COMMIT INTERVAL = '1s')",
    )
    assert "Read view: materialize.public.w" in lines
