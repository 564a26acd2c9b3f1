"""Kafka and Postgres feed a cluster whose workers and driver are killed; the tables equal the sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from cluster.feed import Rows, connections
from cluster.lab import Lab, lab_of
from support.kafka import Kafka
from support.kafka import kafka as new_kafka
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak

_PARTITIONS, _MESSAGES, _ITEMS, _PARTS = 9, 300, 21_000, 13
"""More partitions and rows than the driver reads in process."""
_SQL = """
CREATE CONNECTION broker TO KAFKA (BROKER '{broker}', SECURITY PROTOCOL = 'PLAINTEXT');
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE 'postgres', USER postgres);
CREATE SOURCE messages (item bigint NOT NULL, x bigint) FROM KAFKA CONNECTION broker (TOPIC 'messages') FORMAT JSON;
CREATE SOURCE near FROM POSTGRES CONNECTION pg (PUBLICATION 'near') FOR TABLES (items);
CREATE SOURCE far FROM POSTGRES CONNECTION pg (PUBLICATION 'far') FOR TABLES (things)
  WITH (LOG = 's3://data/logs', AWS CONNECTION = aws);
CREATE MATERIALIZED VIEW sums AS SELECT part, count(*) AS n, sum(x)::bigint AS x FROM items GROUP BY part;
CREATE MATERIALIZED VIEW told AS SELECT m.x AS m, t.x AS x FROM messages AS m JOIN things AS t ON t.id = m.item;
CREATE SINK messages_sink FROM messages INTO ICEBERG CATALOG CONNECTION lake
  (NAMESPACE = 'sources', TABLE = 'messages') USING AWS CONNECTION aws ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
CREATE SINK things_sink FROM things INTO ICEBERG CATALOG CONNECTION lake
  (NAMESPACE = 'sources', TABLE = 'things') USING AWS CONNECTION aws KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK sums_sink FROM sums INTO ICEBERG CATALOG CONNECTION lake
  (NAMESPACE = 'sources', TABLE = 'sums') USING AWS CONNECTION aws KEY (part) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
CREATE SINK told_sink FROM told INTO ICEBERG CATALOG CONNECTION lake
  (NAMESPACE = 'sources', TABLE = 'told') USING AWS CONNECTION aws KEY (m) NOT ENFORCED MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""
_TABLES = """
CREATE TABLE items (id bigint PRIMARY KEY, part bigint, x bigint);
CREATE TABLE things (id bigint PRIMARY KEY, part bigint, x bigint);
CREATE PUBLICATION near FOR TABLE items;
CREATE PUBLICATION far FOR TABLE things;
"""


@dataclass(slots=True)
class Sources:
    """The contents of a topic and of two tables."""

    broker: Kafka
    postgres: Postgres
    name: str = "sources"
    turns: int = 0
    messages: Rows = field(default_factory=list)

    def more(self) -> None:
        """Send messages, and insert, overwrite and delete rows."""
        turn = self.turns
        self.turns += 1
        new = [((each * 37 + turn) % _ITEMS, turn * _MESSAGES + each) for each in range(_MESSAGES)]
        for partition in range(_PARTITIONS):
            own = [json.dumps({"item": item, "x": x}) for item, x in new[partition::_PARTITIONS]]
            self.broker.send("messages", *own, partition=partition)
        self.messages += new
        for table in ("items", "things"):
            self.postgres.execute(
                f"INSERT INTO {table} SELECT n, n % {_PARTS}, n + {turn} FROM generate_series(0, {_ITEMS}) AS n "
                f"ON CONFLICT (id) DO UPDATE SET x = excluded.x; DELETE FROM {table} WHERE id % 101 = {turn % 101}"
            )

    def expected(self) -> dict[str, Rows]:
        """Return the expected rows of the tables."""
        things = self.postgres.execute("SELECT id, part, x FROM things ORDER BY id")
        by_id = {id_: x for id_, _, x in things}
        sums = self.postgres.execute("SELECT part, count(*), sum(x)::bigint FROM items GROUP BY part ORDER BY part")
        told = [(x, by_id[item]) for item, x in self.messages if item in by_id]
        return {"messages": sorted(self.messages), "things": things, "sums": sums, "told": sorted(told)}


@pytest.fixture(scope="module")
def long_lived(
    tmp_path_factory: pytest.TempPathFactory, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> Iterator[Lab]:
    with new_kafka() as broker:
        broker.topic(_PARTITIONS, "messages")
        catalogs.execute(_TABLES)
        feed = Sources(broker, catalogs)
        sql, folder = _SQL.format(broker=broker.address, port=catalogs.port), tmp_path_factory.mktemp("hosts")
        with lab_of(feed, connections(server), sql, folder, server, cluster, catalogs) as found:
            yield found


@pytest.fixture
def one(long_lived: Lab) -> Lab:
    long_lived.heal()
    return long_lived


@pytest.mark.parametrize("point", ["read", "arrangement-run", "state-put", "data-file"])
def test_a_worker_is_killed(one: Lab, point: str) -> None:
    one.lose(one.stop_in_tasks(f"{point}=stop"))
    one.check()


def test_the_driver_is_killed_and_starts_again_elsewhere(one: Lab) -> None:
    one.stop_driver("index-kept=stop")
    one.move()
    one.check(rebuilds=True)


def test_rows_change_while_the_broker_and_a_worker_are_gone(one: Lab) -> None:
    feed = one.feed
    assert isinstance(feed, Sources)
    one.lose(one.stop_in_tasks("read=stop"))
    feed.broker.restart()
    one.turn()
