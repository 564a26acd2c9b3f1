"""Servers lose their connections: every sink commits again soon after they return, without a restart.

The names of all servers resolve to proxies, first at one address of this machine and later at a second address.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest

from support.command import Running, launch_program
from support.front import Front, front
from support.kafka import PASSWORD as KAFKA_PASSWORD
from support.kafka import USER, Kafka, kafka
from support.mariadb import PASSWORD, MariaDb, mariadb
from support.patience import PATIENCE_S, Deadline
from support.postgres import Postgres, postgres
from support.seaweed import Seaweed, seaweed

pytestmark = [
    pytest.mark.server,
    pytest.mark.soak,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root can set host names"),
]

_HERE, _THERE = "127.0.0.2", "127.0.0.3"
_NAMES = {
    "kafka": "broker-1.lost", "postgres": "pg.lost", "mariadb": "my.lost", "s3": "s3.lost", "rest": "rest.lost",
}  # fmt: skip
_AGAIN_S = 60.0
_TROUBLE_S = 60.0
_LATE_S = 9.0
_PIPELINE = """
CREATE SECRET password AS 'pass word''s';
CREATE SECRET kafka_password AS '{kafka_password}';
CREATE SECRET key AS '{key}';
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CONNECTION kafka TO KAFKA (
  BROKER 'broker-1.lost:{kafka}', SECURITY PROTOCOL = 'SASL_PLAINTEXT', SASL MECHANISMS = 'PLAIN',
  SASL USERNAME = '{user}', SASL PASSWORD = SECRET kafka_password
);
CREATE CONNECTION pg TO POSTGRES (HOST 'pg.lost', PORT {postgres}, DATABASE 'postgres', USER 'postgres');
CREATE CONNECTION my TO MYSQL (HOST 'my.lost', PORT {mariadb}, USER 'reader', PASSWORD = SECRET password);
CREATE CONNECTION aws TO AWS (
  ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET key, ENDPOINT = 'http://s3.lost:{s3}', REGION = 'us-east-1'
);
CREATE CONNECTION rest TO ICEBERG CATALOG (
  CATALOG TYPE = 'REST', URL = 'http://rest.lost:{rest}', CREDENTIAL = 'admin:' || SECRET key, WAREHOUSE = 'lake'
);
CREATE SOURCE topic (n bigint) FROM KAFKA CONNECTION kafka (TOPIC 'in') FORMAT TEXT;
CREATE SOURCE p FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
CREATE SOURCE m FROM MYSQL CONNECTION my FOR TABLES (db.in_mysql);
CREATE SOURCE f (n bigint) FROM FILES CONNECTION aws (PATH = 's3://data/in') FORMAT JSON;
CREATE SOURCE counter FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 2);
CREATE SINK from_kafka FROM topic INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'n', TABLE 'k')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
CREATE SINK from_postgres FROM in_postgres INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'n', TABLE 'p')
  KEY (n) ENVELOPE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK from_mysql FROM in_mysql INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'n', TABLE 'm')
  KEY (n) ENVELOPE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK from_s3 FROM f INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'n', TABLE 'f')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
CREATE SINK to_kafka FROM counter INTO KAFKA CONNECTION kafka (TOPIC 'out') KEY (counter) NOT ENFORCED
  FORMAT JSON ENVELOPE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK to_rest FROM counter INTO ICEBERG CATALOG CONNECTION rest (NAMESPACE 'n', TABLE 'c')
  USING AWS CONNECTION aws ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""
_SINKS = ("from_kafka", "from_postgres", "from_mysql", "from_s3", "to_kafka", "to_rest")
_OF = {
    "kafka": ("from_kafka", "to_kafka"),
    "postgres": ("from_postgres",),
    "mariadb": ("from_mysql",),
    "s3": ("from_s3", "to_rest"),
    "rest": ("to_rest",),
}
"""The sinks that need each server."""


@dataclass
class _World:
    running: Running
    fronts: dict[str, Front]
    hosts: Path

    def move(self, server: str) -> None:
        """Move the proxy of a server to the second address, and the server's name with it."""
        found, name = self.fronts[server], _NAMES[server]
        before = f"{found.host} {name}"
        found.listen(_THERE if found.host == _HERE else _HERE)
        text = self.hosts.read_text().replace(before, f"{found.host} {name}")
        self.hosts.write_text(text)  # in place: the file is mounted

    def commits(self) -> dict[str, int]:
        while self.running.look(0.0):
            pass
        return {each: self.running.commits.get(f"materialize.public.{each}", 0) for each in _SINKS}

    def await_commits(self, sinks: tuple[str, ...]) -> dict[str, float]:
        """Wait until each sink has committed again; return the seconds until its commit."""
        began, before, found = time.monotonic(), self.commits(), dict[str, float]()
        deadline, told = Deadline(), len(self.running.events)
        while len(found) < len(sinks):
            deadline.check(f"a commit of each of {sinks} (committed: {found})")
            self.running.look(0.1)
            now = self.commits()
            for event in self.running.events[told:]:
                if event["event"] not in ("committed", "compacted"):
                    print(f"  {time.monotonic() - began:.0f} s: {event}")
            told = len(self.running.events)
            for each in sinks:
                if now[each] > before[each]:
                    found.setdefault(each, time.monotonic() - began)
        return found


class _Feed(threading.Thread):
    """Writes a row to each server every half second, without the proxies."""

    def __init__(self, broker: Kafka, database: Postgres, maria: MariaDb, store: Seaweed) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self._servers = broker, database, maria
        self._client = boto3.client(
            "s3",
            endpoint_url=store.storage["s3.endpoint"],
            aws_access_key_id=store.user,
            aws_secret_access_key=store.secret,
            region_name="us-east-1",
        )

    def put(self, number: int) -> None:
        broker, database, maria = self._servers
        broker.send("in", str(number))
        database.execute(f"INSERT INTO in_postgres VALUES ({number})")
        maria.run(f"INSERT INTO db.in_mysql VALUES ({number})")
        self._client.put_object(Bucket="data", Key=f"in/{number}.json", Body=f'{{"n": {number}}}\n'.encode())

    def run(self) -> None:
        number = 1
        while not self.over.wait(0.5):
            self.put(number)
            number += 1


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_World]:
    folder = tmp_path_factory.mktemp("lost")
    with ExitStack() as stack:
        broker = stack.enter_context(kafka("lost"))
        database = stack.enter_context(postgres())
        (folder / "maria").mkdir()
        maria = stack.enter_context(mariadb(folder / "maria"))
        store = stack.enter_context(seaweed(folder / "store"))
        broker.topic(name="in")
        broker.topic(name="out")
        database.execute("CREATE TABLE in_postgres (n int PRIMARY KEY)")
        database.execute("CREATE PUBLICATION p FOR TABLE in_postgres")
        maria.run("CREATE DATABASE db", "CREATE TABLE db.in_mysql (n int PRIMARY KEY)")
        ports = {
            "kafka": broker.ports[2],
            "postgres": database.port,
            "mariadb": maria.port,
            "s3": store.s3,
            "rest": store.rest,
        }
        fronts = {name: stack.enter_context(front(port, host=_HERE, port=port)) for name, port in ports.items()}
        hosts = folder / "hosts"
        hosts.write_text(
            Path("/etc/hosts").read_text() + "".join(f"\n{_HERE} {each}" for each in _NAMES.values()) + "\n"
        )
        script = _PIPELINE.format(
            **ports, user=USER, kafka_password=KAFKA_PASSWORD.replace("'", "''"), key=store.secret
        )
        (folder / "pipeline.sql").write_text(script)
        assert PASSWORD == "pass word's"
        feed = _Feed(broker, database, maria, store)
        feed.put(0)
        running = launch_program(*_named(hosts, "--output", "json", "exec", "pipeline.sql"), folder=folder)
        feed.start()
        try:
            found = _World(running, fronts, hosts)
            found.await_commits(_SINKS)
            yield found
        finally:
            feed.over.set()
            feed.join(PATIENCE_S)
            running.kill()
            print("\n".join([*running.printed[-40:], *running.errors[-20:]]))


def _named(hosts: Path, *arguments: str) -> tuple[str, ...]:
    """Return a command line that runs `sinkql` with a hosts file of ours."""
    mount = f'mount --bind {hosts} /etc/hosts && exec "$@"'
    return ("unshare", "-m", "sh", "-c", mount, "sh", sys.executable, "-m", "sinkql", *arguments)


_FORMS: dict[str, Callable[[Front], None]] = {
    "mute": Front.mute,
    "reset": Front.reset,
    "late": lambda front: front.late(_LATE_S),
    "away": Front.leave,
}


@pytest.mark.parametrize("server", [*_OF, "all"])
@pytest.mark.parametrize("form", _FORMS)
def test_every_sink_commits_again_once_its_server_is_back(world: _World, form: str, server: str) -> None:
    names = tuple(_OF) if server == "all" else (server,)
    world.await_commits(_SINKS)
    for each in names:
        _FORMS[form](world.fronts[each])
    time.sleep(_TROUBLE_S)  # the duration of the outage under test
    for each in names:
        if form == "away":
            world.move(each)
        world.fronts[each].open()
    found = world.await_commits(tuple(dict.fromkeys(sink for each in names for sink in _OF[each])))
    print(form, server, {sink: round(seconds) for sink, seconds in found.items()})
    assert max(found.values()) < _AGAIN_S
