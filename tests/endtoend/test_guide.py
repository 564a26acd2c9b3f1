"""The statements of examples/guide, one after the other, the tabs beside each other, on a real catalog and S3."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from sinkql.parser import parse
from sinkql.session import Result, Session
from support.command import run
from support.readers import Rows, connect
from support.seaweed import SECRET, Seaweed, seaweed

pytestmark = [pytest.mark.slow, pytest.mark.server]

_GUIDE = Path(__file__).parents[2] / "examples" / "guide"
_HOUR = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
_EVENTS = [(user, f"s{number % 2}", _HOUR + timedelta(minutes=7 * number)) for user in (1, 2) for number in range(12)]


def statements(server: Seaweed, *names: str, catalog: str) -> list[str]:
    """Return the statements of the guide's files, with hosts, names and credentials filled in."""
    text = "\n".join((_GUIDE / f"{name}.sql").read_text() for name in names)
    rest, s3 = f"http://127.0.0.1:{server.rest}", f"http://127.0.0.1:{server.s3}"
    for placeholder, value in (
        ("<your-oauth-client-secret>", SECRET),
        ("<your-aws-secret-access-key>", SECRET),
        ("<your-access-key-id>", server.user),
        ("your-client-id:", f"{server.user}:"),
        ("https://polaris.example.com/api/catalog", rest),
        ("https://s3tables.us-east-1.amazonaws.com", rest),
        ("my_warehouse", "lake"),
        ("my-s3-table-bucket", "lake"),
        ("REGION = 'us-east-1'", f"REGION = 'us-east-1', ENDPOINT = '{s3}'"),
        ("CONNECTION iceberg_catalog (", f"CONNECTION {catalog} ("),
    ):
        text = text.replace(placeholder, value)
    return [text[each.span.start : each.span.end] for each in parse(text)]


def renamed(statement: str) -> str:
    """Return a statement of step 3 or 6 as the guide's other tab has it beside the first one's in the same catalog."""
    for name in ("aws_conn", "user_activity_iceberg", "TABLE 'user_activity"):
        statement = statement.replace(name, f"{name}_2")
    return statement


def test_both_tabs_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_input(tmp_path)
    monkeypatch.chdir(tmp_path)
    with seaweed(tmp_path / "server") as server, Session() as session:
        for name, value in (("AWS_ACCESS_KEY_ID", server.user), ("AWS_SECRET_ACCESS_KEY", server.secret)):
            monkeypatch.setenv(name, value)
        files = ["step1_enable", "step2_secrets", "step3_role", "step4_rest", "upstream", "step5_view", "step6_sink"]
        for statement in statements(server, *files, catalog="iceberg_catalog"):
            session.execute(f"{statement};")
        session.execute("SET cluster = sink_cluster;")  # one Spark is enough
        for statement in statements(server, "pattern_daily_sales", catalog="iceberg_catalog"):
            session.execute(f"{statement};")
        for statement in statements(server, "step3_keys", "step4_s3_tables", "step6_sink", catalog="s3_tables_catalog"):
            session.execute(f"{renamed(statement)};")
        done = run("up", "--once", folder=tmp_path)
        assert done.returncode == 0, done.stderr + done.stdout
        assert SECRET not in done.stdout + done.stderr
        status, found = monitor(session, server)
        assert status.rows == (("user_activity_iceberg", "iceberg", "stopped", None),)
        assert [row[1:] for row in found.rows] == [("analytics", "user_activity")]
        assert in_duckdb(server) == in_duckdb(server, "user_activity_2") == summary()
        assert sales(server) == [(1, 3, 6, Decimal("7.50")), (2, 3, 6, Decimal("7.50"))]
        assert not [each for each in tmp_path.rglob("job*.json") if SECRET in each.read_text()]


def write_input(folder: Path) -> None:
    for name in ("events", "orders"):
        (folder / name).mkdir()
    (folder / "events" / "1.json").write_text(
        "".join(
            json.dumps({"user_id": user, "session_id": session, "event_timestamp": time.isoformat()}) + "\n"
            for user, session, time in _EVENTS
        )
    )
    (folder / "orders" / "1.json").write_text(
        "".join(
            json.dumps(
                {"product_id": each % 2 + 1, "order_timestamp": "2026-01-02 03:04:05Z", "quantity": 2, "revenue": 2.5}
            )
            + "\n"
            for each in range(6)
        )
    )


def monitor(session: Session, server: Seaweed) -> tuple[Result, Result]:
    """Return what the two statements of step 7 show."""
    first, second = (
        session.execute(f"{each};")[0] for each in statements(server, "step7_monitor", catalog="iceberg_catalog")
    )
    return first, second


def summary() -> Rows:
    """Return what step 8 shows of the view that step 5 makes of the events."""
    counted: dict[tuple[int, datetime], list[str]] = {}
    for user, session, time in _EVENTS:
        counted.setdefault((user, time.replace(minute=0)), []).append(session)
    rows = [(user, hour, len(sessions), len(set(sessions))) for (user, hour), sessions in counted.items()]
    return sorted(rows)


def in_duckdb(server: Seaweed, table: str = "user_activity") -> Rows:
    """Return the rows of step 8's query, sorted; its extension is loaded already."""
    query = (_GUIDE / "step8_duckdb.sql").read_text().partition("-- Query the table")[2]
    assert "analytics/user_activity'" in query
    query = query.replace("s3://your-bucket/warehouse/", "s3://lake/").replace("user_activity'", f"{table}'")
    return sorted(read(server, query))


def sales(server: Seaweed) -> Rows:
    columns = "product_id, order_count, total_quantity::int, total_revenue"
    return sorted(read(server, f"SELECT {columns} FROM iceberg_scan('s3://lake/sales/daily_summary')"))


def read(server: Seaweed, query: str) -> Rows:
    with connect() as connection:
        connection.execute(
            f"CREATE SECRET s (TYPE s3, KEY_ID '{server.user}', SECRET '{server.secret}', REGION 'us-east-1', "
            f"ENDPOINT '127.0.0.1:{server.s3}', URL_STYLE 'path', USE_SSL false)"
        )
        connection.execute("SET unsafe_enable_version_guessing = true; SET TimeZone = 'UTC'")
        found: Rows = connection.execute(query).fetchall()
        return found
