"""A pipeline with secrets of every kind, into a real catalog and store, shows none in its files, pages or output."""

from __future__ import annotations

import base64
import json
import os
import signal
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs
import pytest
from keyrings.alt.file import PlaintextKeyring
from pyiceberg.catalog import load_catalog

from leak.scanner import Canary, Place, canary, files_in, hits, objects_of, pages_of, processes_of, text_of
from support.aws import KEYS, Aws, aws
from support.command import Running, start
from support.google import Google, google
from support.patience import PATIENCE_S
from support.port import held_ports
from support.seaweed import Seaweed, seaweed
from support.vault import ROOT, Vault, vault

pytestmark = [pytest.mark.slow, pytest.mark.server]

_REFERENCES = ("environment", "file", "keyring", "vault", "aws")
_STATEMENTS = """
CREATE SECRET s_literal AS '{literal}';
CREATE SECRET s_environment AS env_var('LEAK_SECRET');
CREATE SECRET s_file AS file('{put}/secret.txt');
CREATE SECRET s_keyring AS keyring('lake', 'writer');
CREATE SECRET s_vault AS vault('secret/lake', 'key');
CREATE SECRET s_aws AS aws_secret('lake', 'key');
CREATE SECRET whole AS decode('{whole}', 'base64');
CREATE SECRET spare AS 'old';
ALTER SECRET spare AS '{rotated}';
CREATE CONNECTION aws TO AWS (
  ACCESS KEY ID = '{user}', SECRET ACCESS KEY = SECRET whole,
  ENDPOINT = 'http://127.0.0.1:{s3}', REGION = 'us-east-1');
CREATE CLUSTER watched (SIZE = 'local[2]', EXECUTION = SPARK, CONF = MAP[
  'spark.ui.enabled' => 'true', 'spark.ui.port' => '{ui}', 'spark.eventLog.enabled' => 'true',
  'spark.eventLog.dir' => 'file://{folder}/events', 'spark.eventLog.compress' => 'false'],
  STATE = 's3://data/state', AWS CONNECTION = aws);
CREATE CONNECTION spare_aws TO AWS (
  ACCESS KEY ID = 'x', SECRET ACCESS KEY = SECRET spare, SESSION TOKEN = '{token}');
CREATE CONNECTION lake TO ICEBERG CATALOG (
  CATALOG TYPE = 'REST', URL = 'http://127.0.0.1:{rest}', WAREHOUSE = 'lake',
  CREDENTIAL = '{user}:' || SECRET s_literal || SECRET s_environment || SECRET s_file || SECRET s_keyring
    || SECRET s_vault || SECRET s_aws);
CREATE SECRET google_key AS file('{put}/key.json');
CREATE CONNECTION google TO GCP (SERVICE ACCOUNT KEY = SECRET google_key) WITH (VALIDATE);
CREATE CONNECTION biglake TO ICEBERG CATALOG (
  CATALOG TYPE = 'REST', URL = '{biglake}', WAREHOUSE = 'gs://lake', GCP CONNECTION = google);
CREATE SOURCE events (id bigint, kind text, parts bigint) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE MATERIALIZED VIEW totals IN CLUSTER watched AS
SELECT kind, count(*) AS events, sum(100 / parts) AS share FROM events GROUP BY kind;
CREATE SINK raw IN CLUSTER watched FROM events
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'shop', TABLE 'events')
  USING AWS CONNECTION aws ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
CREATE SINK totals_sink IN CLUSTER watched FROM totals
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'shop', TABLE 'totals')
  USING AWS CONNECTION aws KEY (kind) ENFORCED ENVELOPE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK google_sink IN CLUSTER watched FROM totals
  INTO ICEBERG CATALOG CONNECTION biglake (NAMESPACE 'shop', TABLE 'totals')
  KEY (kind) ENFORCED ENVELOPE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_PUT_INTO_THE_ENVIRONMENT = ("environment", "vault token", "aws key")
_EXPECTED = (
    "catalog.db", "spark.log", "events/", "log-", "spark-0.txt", "hadoop-0.txt", ".parquet", ".avro",
    "checkpoint", "stdout", "cmdline of", "environ of", "page /environment/", "data/state",
)  # fmt: skip
_PLANTED = (
    "stdout", "stderr", "log-", "cmdline of", "environ of", "spark-1.txt", "events/", "page /jobs/", "/jobs",
    ".parquet",
)  # fmt: skip
_PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery", "executors/threadDump")


@dataclass
class Scene:
    """The folders and servers of a run: `put` has the user's secrets, `seen` gets logs, `folder` is the project."""

    root: Path
    server: Seaweed
    google: Google
    secrets: dict[str, Canary]
    environment: dict[str, str]
    ui: int

    @property
    def folder(self) -> Path:
        return self.root / "project"

    @property
    def seen(self) -> Path:
        return self.root / "seen"

    @property
    def script(self) -> str:
        texts = {kind: each.text for kind, each in self.secrets.items()} | {"user": self.server.user}
        whole = base64.b64encode(self.server.secret.encode()).decode()
        ports = {"s3": self.server.s3, "rest": self.server.rest, "ui": self.ui, "biglake": self.google.catalog}
        return _STATEMENTS.format(**texts | {"whole": whole, "put": self.root / "put", "folder": self.folder} | ports)

    def rows(self, name: str, first: int, *, parts: int = 2, kind: str = "k") -> None:
        rows = [{"id": i, "kind": f"{kind}{i % 3}", "parts": parts} for i in range(first, first + 50)]
        (self.folder / "in" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    root = tmp_path_factory.mktemp("leak")
    for name in ("put", "seen", "project/in", "project/events"):
        (root / name).mkdir(parents=True)
    secrets = {kind: canary(kind) for kind in ("literal", *_REFERENCES, "user", "token", "rotated")}
    whole = "".join(secrets[kind].text for kind in ("literal", *_REFERENCES))
    with (
        seaweed(root / "server", user=secrets["user"].core, secret=whole) as server,
        vault(root / "vault") as bao,
        aws() as amazon,
        google() as cloud,
        held_ports(1) as (ui,),
    ):
        environment = _put(root, secrets, bao, amazon)
        secrets["google key"] = Canary("google key", json.loads(cloud.key)["private_key"].splitlines()[5])
        secrets["google token"] = canary("token")
        cloud.rule(mark=secrets["google token"].core)
        (root / "put" / "key.json").write_text(cloud.key)
        for kind, text in (("vault token", ROOT), ("aws key", KEYS["AWS_SECRET_ACCESS_KEY"])):
            secrets[kind] = Canary(kind, text)
        yield Scene(root, server, cloud, secrets, environment, ui)


def _put(root: Path, secrets: dict[str, Canary], bao: Vault, amazon: Aws) -> dict[str, str]:
    """Put secrets where users keep them; return the environment with their places."""
    (root / "put" / "secret.txt").write_text(secrets["file"].text)
    ring = PlaintextKeyring()
    ring.file_path = str(root / "put" / "ring.cfg")
    ring.set_password("lake", "writer", secrets["keyring"].text)
    bao.put("lake", key=secrets["vault"].text)
    amazon.secrets().create_secret(Name="lake", SecretString=json.dumps({"key": secrets["aws"].text}))
    hooks = str(Path(__file__).parent / "hooks")
    return {
        **bao.environment,
        **amazon.environment,
        "AWS_EC2_METADATA_DISABLED": "true",
        "LEAK_SECRET": secrets["environment"].text,
        "LEAK_FOLDER": str(root / "seen"),
        "PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring",
        "KEYRING_PROPERTY_FILE_PATH": str(root / "put" / "ring.cfg"),
        "PYTHONPATH": os.pathsep.join([hooks, os.environ.get("PYTHONPATH", "")]),
    }


def _while_running(scene: Scene, running: Running, number: int, planted: str = "") -> list[Place]:
    """Return what a running pipeline exposes, after planting a text in all places."""
    (scene.seen / "draft").write_text(planted)
    (scene.seen / "draft").rename(scene.seen / f"ask-{number}")
    until = time.monotonic() + PATIENCE_S
    while not (scene.seen / f"spark-{number}.txt").exists():
        assert time.monotonic() < until, "Spark's settings did not come"
        time.sleep(0.05)
    address = f"http://127.0.0.1:{scene.ui}"
    paths = [f"/{page}/" for page in _PAGES[:-1]] + [f"/{_PAGES[-1]}/?executorId=driver"]
    ((_, listed),) = pages_of(address, "/api/v1/applications")
    application = f"/api/v1/applications/{json.loads(listed)[0]['id']}"
    paths += [f"{application}/{each}" for each in ("jobs", "stages?details=true", "environment", "allexecutors")]
    paths += [f"{application}/sql?details=true&length=1000", "/SQL/execution/?id=0", "/jobs/job/?id=0"]
    paths += ["/stages/stage/?id=0&attempt=0"]
    pages = list(pages_of(address, *paths))
    assert len(pages) == len(paths)
    return [*pages, *processes_of(running.process.pid), *_conf(scene.folder)]


def _conf(folder: Path) -> list[Place]:
    """Return the project's files during the run; check that only the owner can read Spark's settings."""
    found = list(folder.rglob("spark-defaults.conf"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in found] == [0o600]
    assert [stat.S_IMODE(path.parent.stat().st_mode) for path in found] == [0o700]
    return list(files_in(folder))


def _left(scene: Scene) -> list[Place]:
    """Return what a run left: the project's files, the logs and the tables."""
    storage = pyarrow.fs.S3FileSystem(
        access_key=scene.server.user,
        secret_key=scene.server.secret,
        endpoint_override=f"http://127.0.0.1:{scene.server.s3}",
        region="us-east-1",
    )
    uri = f"http://127.0.0.1:{scene.server.rest}"
    lake = load_catalog(
        "default",
        type="rest",
        uri=uri,
        warehouse="lake",
        credential=f"{scene.server.user}:{scene.server.secret}",
        **{"oauth2-server-uri": f"{uri}/v1/oauth/tokens", **scene.server.storage},
    )
    places = [*files_in(scene.folder), *files_in(scene.seen)]
    for name in ("shop.events", "shop.totals"):
        table = lake.load_table(name)
        places += text_of(f"table {name}", table.metadata)
        places += objects_of(storage, table.location().removeprefix("s3://"))
    places += objects_of(storage, "data/state")
    return [*places, *objects_of(scene.google.files(), "lake")]


@pytest.mark.soak
def test_no_secret_of_a_pipeline_shows(scene: Scene) -> None:
    planted = canary("planted")
    scene.rows("0.json", 0)
    (scene.root / "put" / "pipeline.sql").write_text(scene.script)
    running = start(
        "exec", str(scene.root / "put" / "pipeline.sql"), folder=scene.folder, environment=scene.environment
    )
    try:
        raw, totals, cloud = (f"materialize.public.{name}" for name in ("raw", "totals_sink", "google_sink"))
        running.wait_for_rows({raw: 50, totals: 3, cloud: 3})
        scene.rows("1.json", 50, kind=planted.text)
        running.wait_for_rows({raw: 100, totals: 6, cloud: 6})
        places = _while_running(scene, running, 0)
        places += _while_running(scene, running, 1, planted.text)
        scene.rows("2.json", 100, parts=0)  # fails in a task
        failed = running.wait_for_end()
        assert failed["error"]["code"] == "SQ3201"
        places += files_in(scene.folder)
        running.interrupt(signal.SIGINT)
    finally:
        running.kill()
    places += _left(scene)
    places += text_of("stdout", *running.printed)
    places += text_of("stderr", *running.errors)
    names = [where for where, _ in places]
    assert [each for each in _EXPECTED if not any(each in where for where in names)] == []
    found = hits(places, scene.secrets.values())
    assert [hit for hit in found if not _own(*hit)] == []
    assert {kind for _, kind, _ in found} == set(_PUT_INTO_THE_ENVIRONMENT)
    seen = {where for where, _, _ in hits(places, [planted])}
    assert [each for each in _PLANTED if not any(each in where for where in seen)] == []


def _own(where: str, kind: str, form: str) -> bool:
    """Return whether a hit is the user's own: in the environment, or in Hadoop's settings, a copy of it."""
    return kind in _PUT_INTO_THE_ENVIRONMENT and (where.startswith("environ of") or "/hadoop-" in where)
