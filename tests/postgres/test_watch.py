"""The stream reports changes that make the server omit rows of a table, and reports nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sinkql.capture.log_store import FolderLogStore
from sinkql.connector_api.cdc import RowsChanged, SchemaChanged
from sinkql.errors import SinkqlError
from support.patience import Deadline
from support.postgres import Postgres

from .reading import Reading, reading, tables

pytestmark = pytest.mark.server

Run = Callable[[str], object]
_PLAIN = """
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE u (id int PRIMARY KEY);
CREATE PUBLICATION p FOR TABLE t, u;
"""
_PARTED = """
CREATE TABLE t (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10);
CREATE TABLE mid PARTITION OF t FOR VALUES FROM (10) TO (20);
CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root = true);
INSERT INTO t VALUES (1, 1), (11, 1);
"""

_STORED = """
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE t (id int PRIMARY KEY, v varchar(10), n int, moods mood[]);
CREATE PUBLICATION p FOR TABLE t;
INSERT INTO t VALUES (1, 'one', 1, '{good}');
"""


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.connectors.postgres.publication_monitor._WATCH_S", 0.0)


@pytest.fixture
def run(postgres: Postgres, postgres_database: str) -> Run:
    return lambda text: postgres.execute(text, postgres_database)


def _told(stream: Reading) -> list[tuple[str, str | None, bool]]:
    """Return the reports on tables, after at least two checks of the publication."""
    found: list[tuple[str, str | None, bool]] = []
    for _ in range(2):
        monitor, deadline = stream.stream._monitor, Deadline()
        assert monitor is not None
        before = monitor._last_look
        while (seen := monitor._last_look) is None or seen is before or not seen.reported:
            said = [each for each in stream.stream.receive(0.01) if isinstance(each, SchemaChanged)]
            found += [(each.table.id, each.problem, each.lost) for each in said]
            deadline.check("a look at the publication")
    return found


_LOST = {
    "taken out": (_PLAIN, "ALTER PUBLICATION p DROP TABLE t", "no longer has the table: run ALTER PUBLICATION"),
    "fewer changes": (_PLAIN, "ALTER PUBLICATION p SET (publish = 'insert')", "does not publish update and delete"),
    "a filter": (_PLAIN, "ALTER PUBLICATION p SET TABLE u, t WHERE (id > 1)", "has a row filter of the table"),
    "another schema": (
        "CREATE SCHEMA a; CREATE TABLE a.t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLES IN SCHEMA a",
        "ALTER TABLE a.t SET SCHEMA public",
        "no longer has the table",
    ),
    "partitions alone": (_PARTED, "ALTER PUBLICATION p SET (publish_via_partition_root = false)", "has the partitions"),
    "unlogged": (_PLAIN.replace("FOR TABLE t, u", "FOR ALL TABLES"), "ALTER TABLE t SET UNLOGGED", "is UNLOGGED"),
    "an unlogged partition": (_PARTED, "ALTER TABLE low SET UNLOGGED", "a partition of the table is UNLOGGED"),
    "the root": (
        _PARTED.replace("FOR TABLE t WITH (publish_via_partition_root = true)", "FOR TABLE t"),
        "ALTER PUBLICATION p SET (publish_via_partition_root = true)",
        "has the parent of the table",
    ),
}
"""Tables, the change on the server, and the problem that is reported."""


@pytest.mark.share(6)
@pytest.mark.parametrize("what", _LOST)
def test_a_table_that_is_not_sent_any_more_is_told(
    postgres: Postgres, postgres_database: str, run: Run, what: str
) -> None:
    before, altered, said = _LOST[what]
    run(before)
    with reading(postgres, postgres_database) as stream:
        assert _told(stream) == []
        run(altered)
        told = _told(stream)
        assert {(name in ("t", "u", "low", "mid"), lost) for name, _, lost in told} == {(True, True)}
        assert all(said in (problem or "") for _, problem, _ in told)
        assert _told(stream) == []  # reported only once


_BACK = {
    "a table": (_PLAIN, "ALTER PUBLICATION p DROP TABLE t", "ALTER PUBLICATION p ADD TABLE t", ["t"]),
    "kinds of changes": (
        _PLAIN,
        "ALTER PUBLICATION p SET (publish = 'insert')",
        "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')",
        ["t", "u"],
    ),
    "the publication": (_PLAIN, "DROP PUBLICATION p", "CREATE PUBLICATION p FOR TABLE t, u", ["t", "u"]),
    "a partition": (
        _PARTED,
        "ALTER TABLE t DETACH PARTITION low",
        "ALTER TABLE t ATTACH PARTITION low FOR VALUES FROM (0) TO (10)",
        ["t"],
    ),
}
"""Changes that are undone before the next check, and the tables that may miss rows."""


@pytest.mark.share(2)
@pytest.mark.parametrize("what", _BACK)
def test_what_was_undone_before_anybody_looked_is_told(
    postgres: Postgres, postgres_database: str, run: Run, what: str
) -> None:
    before, altered, back, names = _BACK[what]
    run(before)
    with reading(postgres, postgres_database) as stream:
        assert _told(stream) == []
        run(altered)
        run(back)
        told = _told(stream)
        assert [(name, problem is None, lost) for name, problem, lost in told] == [
            each for name in names for each in ((name, False, True), (name, True, False))
        ]


_HARMLESS = {
    "other tables": (_PLAIN, "CREATE TABLE w (id int PRIMARY KEY); ALTER PUBLICATION p ADD TABLE w"),
    "all tables anew": (_PLAIN, "ALTER PUBLICATION p SET TABLE u, t"),
    "rows": (_PLAIN, "INSERT INTO t VALUES (1); TRUNCATE t; VACUUM FULL t; ANALYZE t"),
    "another layout": (
        _PLAIN,
        "ALTER TABLE t ALTER v SET NOT NULL; ALTER TABLE t ALTER v SET STATISTICS 7; VACUUM FULL t;"
        "ALTER TABLE t ADD w uuid DEFAULT gen_random_uuid()",
    ),
    "a longer type": (_STORED, "ALTER TABLE t ALTER v TYPE varchar(20); ALTER TYPE mood ADD VALUE 'fair'"),
    "a new name": (_PLAIN, "ALTER TABLE t RENAME TO t2"),
    "a new partition": (
        _PARTED,
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (20) TO (30); INSERT INTO t VALUES (21)",
    ),
    "a new partition with rows": (
        _PARTED,
        "BEGIN; CREATE TABLE high PARTITION OF t FOR VALUES FROM (20) TO (30); INSERT INTO t VALUES (21); COMMIT",
    ),
    "an empty one attached": (
        _PARTED,
        "CREATE TABLE high (LIKE t INCLUDING ALL); ALTER TABLE t ATTACH PARTITION high FOR VALUES FROM (20) TO (30);"
        "INSERT INTO t VALUES (21)",
    ),
    "partitions rewritten": (_PARTED, "VACUUM FULL low; CLUSTER mid USING mid_pkey; INSERT INTO t VALUES (2), (12)"),
    "the root truncated": (_PARTED, "TRUNCATE t; INSERT INTO t VALUES (2)"),
}
"""Changes after which the server still sends all rows."""


@pytest.mark.share(3)
@pytest.mark.parametrize("what", _HARMLESS)
def test_what_leaves_nothing_out_is_not_told(postgres: Postgres, postgres_database: str, run: Run, what: str) -> None:
    before, altered = _HARMLESS[what]
    run(before)
    with reading(postgres, postgres_database) as stream:
        assert _told(stream) == []
        for each in altered.split(";") if "BEGIN" not in altered else [altered]:
            run(each)
        assert _told(stream) == []


_PARTITIONS = {
    "attached": (
        "CREATE TABLE high (LIKE t INCLUDING ALL); INSERT INTO high VALUES (21); ALTER TABLE t ATTACH PARTITION high "
        "FOR VALUES FROM (20) TO (30)",
        'partition "high" was attached with rows',
    ),
    "attached at once": (
        "BEGIN; CREATE TABLE high (LIKE t INCLUDING ALL); INSERT INTO high VALUES (21); ALTER TABLE t ATTACH PARTITION "
        "high FOR VALUES FROM (20) TO (30); COMMIT",
        'partition "high" was attached with rows',
    ),
    "attached below": (
        "CREATE TABLE high (LIKE t) PARTITION BY RANGE (id);"
        "CREATE TABLE higher PARTITION OF high FOR VALUES FROM (20) TO (30);"
        "INSERT INTO high VALUES (21); ALTER TABLE t ATTACH PARTITION high FOR VALUES FROM (20) TO (30)",
        'partition "higher" was attached with rows',
    ),
    "detached": ("ALTER TABLE t DETACH PARTITION low", 'table "public.t" has lost partitions'),
    "dropped": ("DROP TABLE low", 'table "public.t" has lost partitions'),
    "truncated": ("TRUNCATE low; INSERT INTO t VALUES (3)", 'partition "low" was truncated alone'),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("what", _PARTITIONS)
def test_rows_that_come_and_go_with_partitions_are_told(
    postgres: Postgres, postgres_database: str, run: Run, what: str
) -> None:
    altered, said = _PARTITIONS[what]
    run(_PARTED)
    with reading(postgres, postgres_database) as stream:
        assert _told(stream) == []
        for each in altered.split(";") if "BEGIN" not in altered else [altered]:
            run(each)
        (_, problem, lost), after = _told(stream)
        assert (problem or "").startswith(said)
        assert lost
        assert after == ("t", None, False)


_ANEW = {
    "computed": (_STORED, "ALTER TABLE t ALTER n TYPE int USING n * 100", 'column "n" of table "public.t"'),
    "shorter": (_STORED, "ALTER TABLE t ALTER v TYPE varchar(2) USING left(v, 2)", 'column "v" of table'),
    "partitions": (_PARTED, "ALTER TABLE t ALTER v TYPE int USING v + 1", 'column "v" of table "public.t"'),
    "an enum": (
        _STORED,
        "ALTER TYPE mood RENAME VALUE 'bad' TO 'poor'",
        'the value "bad" of an enum in table "public.t" is now called "poor"',
    ),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("what", _ANEW)
def test_values_that_are_written_again_without_a_change_are_told(
    postgres: Postgres, postgres_database: str, run: Run, what: str
) -> None:
    before, altered, said = _ANEW[what]
    run(before)
    with reading(postgres, postgres_database) as stream:
        assert _told(stream) == []
        run(altered)
        (_, problem, lost), after = _told(stream)
        assert said in (problem or "")
        assert lost
        assert after == ("t", None, False)


def test_a_table_that_is_dropped_is_told_after_its_last_rows(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run(_PLAIN)
    with reading(postgres, postgres_database) as stream:
        run("INSERT INTO t VALUES (1); DROP TABLE t")
        events = [each for each in stream.read() if isinstance(each, RowsChanged | SchemaChanged)]
        found = [each.problem if isinstance(each, SchemaChanged) else sorted(each.tables) for each in events]
        found += [problem for _, problem, _ in _told(stream)]
        assert found == [["t"], 'table "public.t" was dropped']


def test_what_happens_while_nobody_reads_is_told_to_the_next(
    postgres: Postgres, postgres_database: str, run: Run, tmp_path: Path
) -> None:
    run(_PLAIN)
    first = Reading(postgres, postgres_database, tables(postgres, postgres_database), notes=FolderLogStore(tmp_path))
    first.begin()
    assert _told(first) == []
    first.stream.close()
    run("ALTER PUBLICATION p DROP TABLE t")
    run("ALTER PUBLICATION p ADD TABLE t")
    for expected in (["t", "t"], []):
        again = Reading(postgres, postgres_database, first.tables, first.source.id, notes=FolderLogStore(tmp_path))
        again.begin(first.start)
        assert [name for name, *_ in _told(again)] == expected
        again.stream.close()


def test_changes_while_there_is_no_publication_are_told(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run(_PLAIN)
    with reading(postgres, postgres_database) as stream:
        assert _told(stream) == []
        run("DROP PUBLICATION p")
        run("INSERT INTO t VALUES (1)")
        run("CREATE PUBLICATION p FOR TABLE t, u")
        version = stream.stream._query_connection().info.server_version
        if version >= 180000:  # earlier versions fail when they send the change
            assert [name for name, *_ in _told(stream)] == ["t", "t", "u", "u"]
        else:
            with pytest.raises(SinkqlError, match="SQ3704"):
                _told(stream)
