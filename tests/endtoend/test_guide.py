"""The statements of examples/guide run in order on a real catalog and S3, separately for each pair of tabs.

Only hosts, names and credentials are filled in. The table is read with the readers that the guide shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import boto3
import duckdb
import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.parser import parse
from sinkql.runtime.spark.java import check_java
from sinkql.session import Result, Session
from support.aws import aws
from support.command import run
from support.patience import PATIENCE_S
from support.postgres import Postgres
from support.readers import Rows, iceberg_jars, installing
from support.running import drain, loop_of
from support.seaweed import SECRET, Seaweed, seaweed

pytestmark = pytest.mark.server

_GUIDE = Path(__file__).parents[2] / "examples" / "guide"
_HOUR = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
_EVENTS = [(user, f"s{number % 2}", _HOUR + timedelta(minutes=7 * number)) for user in (1, 2) for number in range(12)]
_UPSTREAM = "upstream"
_S3_TABLES = "step4_s3_tables"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder with the input, and set AWS keys that may assume the role."""
    write_input(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.user)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    return tmp_path


@pytest.mark.share(4)
@pytest.mark.parametrize("catalog", ["step4_rest", _S3_TABLES])
@pytest.mark.parametrize("access", ["step3_role", "step3_keys"])
def test_each_pair_of_tabs_runs_statement_by_statement(
    server: Seaweed, folder: Path, access: str, catalog: str
) -> None:
    bucket = warehouse(server, f"{access}-{catalog}")
    guide = Guide(server, bucket, catalog)
    with Session() as session:
        for name in ("step1_enable", "step2_secrets", access, catalog, _UPSTREAM, "step5_view", "step6_sink"):
            guide.run(session, name)
        guide.run(session, "pattern_daily_sales")
        assert guide.run(session, "step7_monitor")[0].rows == (("user_activity_iceberg", "iceberg", "created", None),)
        for job in session.jobs():
            loop = loop_of(job, session.context(job), session.catalog.registry, control=session.catalog.control)
            loop.start(epoch=1, once=True)
            assert drain(loop) == 1
        assert [row[1:] for row in guide.run(session, "step7_monitor")[1].rows] == [("analytics", "user_activity")]
    assert in_duckdb(guide, folder) == summary()
    assert sales(guide, folder) == [(1, 3, 6, Decimal("7.50")), (2, 3, 6, Decimal("7.50"))]


@pytest.mark.slow
@pytest.mark.parametrize("spark", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_the_guide_runs_from_the_shell_and_its_readers_read_the_table(
    server: Seaweed, folder: Path, spark: bool
) -> None:
    guide = Guide(server, warehouse(server, f"shell-{spark}".lower()), "step4_rest")
    names = ["step1_enable", "step2_secrets", "step3_role", "step4_rest", _UPSTREAM, "step5_view", "step6_sink"]
    for name in (*names, "step7_monitor"):
        (folder / f"{name}.sql").write_text(guide.text(f"{name}.sql"))
    done = run("exec", "--once", *(f"{name}.sql" for name in names), folder=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    assert SECRET not in done.stdout + done.stderr
    told = run("--output", "json", "exec", "step7_monitor.sql", folder=folder).stdout
    assert '"stopped"' in told
    assert '"analytics"' in told
    assert in_duckdb(guide, folder) == in_duckdb(guide, folder, "step8_trino.sql", attached=True) == summary()
    assert not spark or in_spark(guide, folder) == summary()
    assert not [each for each in folder.rglob("job*.json") if SECRET in each.read_text()]


def test_the_role_of_the_guide_is_assumed_at_sts(folder: Path) -> None:
    role = (_GUIDE / "step3_role.sql").read_text()
    with aws() as amazon, Session() as session:
        session.execute(role.replace("REGION = 'us-east-1'", f"REGION = 'us-east-1', ENDPOINT = '{amazon.address}'"))
        keys = session.access.store("materialize.public.aws_conn").properties()
        assert keys["s3.access-key-id"].startswith("ASIA")  # temporary keys, as STS issues them
        assert keys["s3.session-token"]
        assert session.execute("VALIDATE CONNECTION aws_conn;")[0].tag == "VALIDATE CONNECTION"


def test_the_pattern_of_postgres_runs_as_it_stands(
    server: Seaweed, folder: Path, postgres: Postgres, postgres_database: str
) -> None:
    postgres.execute(
        "CREATE TABLE users (id integer PRIMARY KEY, name text); INSERT INTO users VALUES (1, 'Ada'); "
        "CREATE PUBLICATION mz_source FOR TABLE users",
        postgres_database,
    )
    guide = Guide(server, warehouse(server, "pattern-cdc"), "step4_rest")
    with Session() as session:
        for name in ("step1_enable", "step2_secrets", "step3_keys", "step4_rest"):
            guide.run(session, name)
        session.execute(
            f"CREATE CONNECTION pg_conn TO POSTGRES (HOST '127.0.0.1', PORT {postgres.port}, "
            f"DATABASE '{postgres_database}', USER postgres);"
        )
        guide.run(session, "pattern_cdc")
        with capturing(session):
            catch_up(session)
        session.execute("DROP SOURCE pg_users CASCADE;")
    with reader(guide, folder) as connection:
        rows = connection.execute(f"SELECT * FROM iceberg_scan('s3://{guide.bucket}/raw/users')").fetchall()
    assert rows == [(1, "Ada")]


class Guide:
    """The guide's files with hosts, names and credentials filled in, for one server, warehouse and tab of step 4."""

    def __init__(self, server: Seaweed, bucket: str, catalog: str) -> None:
        self.server, self.bucket = server, bucket
        rest, s3 = f"http://127.0.0.1:{server.rest}", f"http://127.0.0.1:{server.s3}"
        self._filled = [
            ("<your-oauth-client-secret>", SECRET),
            ("<your-aws-secret-access-key>", SECRET),
            ("<your-access-key-id>", server.user),
            ("your-client-id:", f"{server.user}:"),
            ("https://polaris.example.com/api/catalog", rest),
            ("https://s3tables.us-east-1.amazonaws.com", rest),
            ("my_warehouse", bucket),
            ("my-s3-table-bucket", bucket),
            ("s3://your-bucket/warehouse/", f"s3://{bucket}/"),
            ("REGION = 'us-east-1'", f"REGION = 'us-east-1', ENDPOINT = '{s3}'"),
        ]
        if catalog == _S3_TABLES:
            self._filled.append(("CATALOG CONNECTION iceberg_catalog (", "CATALOG CONNECTION s3_tables_catalog ("))

    def text(self, file: str) -> str:
        text = (_GUIDE / file).read_text()
        for placeholder, value in self._filled:
            text = text.replace(placeholder, value)
        return text

    def run(self, session: Session, name: str) -> list[Result]:
        """Run the statements of a file one at a time."""
        text = self.text(f"{name}.sql")
        return [session.execute(f"{text[each.span.start : each.span.end]};")[0] for each in parse(text)]


def warehouse(server: Seaweed, name: str) -> str:
    """Create a table bucket that the role may also use; return its name."""
    bucket = name.replace("_", "-")
    keys = {"aws_access_key_id": server.user, "aws_secret_access_key": server.secret, "region_name": "us-east-1"}
    tables = boto3.client("s3tables", endpoint_url=f"http://127.0.0.1:{server.s3}", **keys)
    made = tables.create_table_bucket(name=bucket)["arn"]
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "s3tables:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [everybody]})
    tables.put_table_bucket_policy(tableBucketARN=made, resourcePolicy=policy)
    return bucket


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


def summary() -> Rows:
    """Return the rows that step 8 reads from the view of step 5: user, hour and number of events."""
    counted: dict[tuple[int, datetime], int] = {}
    for user, _, time in _EVENTS:
        place = (user, time.replace(minute=0))
        counted[place] = counted.get(place, 0) + 1
    return sorted((user, hour, events) for (user, hour), events in counted.items())


def in_duckdb(guide: Guide, folder: Path, file: str = "step8_duckdb.sql", *, attached: bool = False) -> Rows:
    """Run the statements of a file of step 8; return user, hour and number of events."""
    with reader(guide, folder, attached=attached) as connection:
        return sorted(row[:3] for row in connection.execute(guide.text(file)).fetchall())


def sales(guide: Guide, folder: Path) -> Rows:
    columns = "product_id, order_count, total_quantity::int, total_revenue"
    with reader(guide, folder) as connection:
        query = f"SELECT {columns} FROM iceberg_scan('s3://{guide.bucket}/sales/daily_summary')"
        return sorted(connection.execute(f"INSTALL iceberg; LOAD iceberg; {query}").fetchall())


@contextmanager
def reader(guide: Guide, folder: Path, *, attached: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB with access to S3 and, if `attached`, with the catalog `iceberg`, as the guide assumes."""
    server = guide.server
    with installing(folder) as connection:
        connection.execute("INSTALL httpfs; LOAD httpfs; SET TimeZone = 'UTC'")
        connection.execute(
            f"CREATE SECRET s (TYPE s3, KEY_ID '{server.user}', SECRET '{server.secret}', REGION 'us-east-1', "
            f"ENDPOINT '127.0.0.1:{server.s3}', URL_STYLE 'path', USE_SSL false)"
        )
        if attached:
            rest = f"http://127.0.0.1:{server.rest}"
            connection.execute(
                f"INSTALL iceberg; LOAD iceberg; CREATE SECRET c (TYPE iceberg, CLIENT_ID '{server.user}', "
                f"CLIENT_SECRET '{SECRET}', OAUTH2_SERVER_URI '{rest}/v1/oauth/tokens')"
            )
            connection.execute(
                f"ATTACH '{guide.bucket}' AS iceberg (TYPE iceberg, ENDPOINT '{rest}', SECRET c, "
                "ACCESS_DELEGATION_MODE 'none')"
            )
        else:
            connection.execute("INSTALL iceberg; LOAD iceberg; SET unsafe_enable_version_guessing = true")
        yield connection


def in_spark(guide: Guide, folder: Path) -> Rows:
    """Run the program of step 8 in a new Spark; return user, hour and number of events."""
    configuration, server = folder / "conf", guide.server
    configuration.mkdir()
    catalog = {
        "credential": f"{server.user}:{SECRET}",
        "warehouse": guide.bucket,
        "client.region": "us-east-1",
        **{name: value for name, value in server.storage.items() if name != "s3.region"},
    }
    settings = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.jars": ",".join(map(str, iceberg_jars(aws=True))),
        **{f"spark.sql.catalog.my_catalog.{name}": value for name, value in catalog.items()},
    }
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (configuration / "spark-defaults.conf").write_text("".join(lines))
    program = folder / "step8_spark.py"
    program.write_text(guide.text(program.name))
    environment = os.environ | check_java().environment | {"SPARK_CONF_DIR": str(configuration)}
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if "|" in line]
    rows = [(int(user), datetime.fromisoformat(f"{hour}+00:00"), int(events)) for user, hour, events, *_ in cells[1:]]
    return sorted(rows)
