"""The relations of `mz_internal`: statuses and progress of sinks and sources, and dependencies of items."""

from __future__ import annotations

from sinkql.catalog.system.relation import relation

_SINK_ID = "json_extract(i.details, '$.sink_id')"
_VIEW_ID = "json_extract(i.facts, '$.view_id')"


def job_id(item: str) -> str:
    """Return SQL for the job id of an item, a sink or a view with a log; NULL for other items."""
    sink, view = (sql.replace("i.", f"{item}.", 1) for sql in (_SINK_ID, _VIEW_ID))
    return f"coalesce({sink}, {view})"


# A killed process writes no status. Its last status is outdated when its lease has expired.
_DEAD = (
    "s.status IN ('starting', 'running', 'paused') AND l.sink_id IS NOT NULL"
    " AND (l.owner IS NULL OR l.expires < (julianday('now') - 2440587.5) * 86400.0)"
)
_GONE = "'the process that ran it is gone (pid ' || l.pid || ' on ' || l.host || ')'"
_STATUS = f"CASE WHEN {_DEAD} THEN 'failed' ELSE coalesce(s.status, 'created') END"
_ERROR = f"CASE WHEN {_DEAD} THEN {_GONE} ELSE s.error END"
_DETAILS = "coalesce(s.details, CASE WHEN s.hint IS NOT NULL THEN json_object('hint', s.hint) END)"


def _statuses(where: str) -> str:
    """Return FROM and WHERE for the statuses of jobs."""
    return (
        "FROM items AS i\n"
        f"LEFT JOIN statuses AS s ON s.sink_id = {job_id('i')}\n"
        f"LEFT JOIN leases AS l ON l.sink_id = {job_id('i')}\n"
        f"WHERE {where}"
    )


JOB_STATUSES = """(SELECT id, status, error, details, hint, last_status_change_at FROM mz_sink_statuses
  UNION ALL
  SELECT id, status, error, details, hint, last_status_change_at FROM mz_materialized_view_statuses)"""
"""The statuses of all jobs: sinks, and views with a log."""

SINKS_BEHIND = """SELECT m.id AS sink_id, max((e.value ->> 'known') - (e.value ->> 'committed'), 0) AS behind,
    e.value ->> 'unit' AS unit
  FROM measures AS m JOIN json_each(m.figures) AS e
  WHERE e.value ->> 'known' IS NOT NULL
  UNION ALL
  SELECT s.key, max((e.value ->> 'offset_known') - s.value, 0), e.value ->> 'unit'
  FROM measures AS m JOIN json_each(m.figures) AS e ON e.key = '' JOIN json_each(e.value, '$.sinks') AS s"""
"""The lag of each sink behind each source: by its figures, or by the figures of the capture whose log it reads."""

_JOB_OF_K = job_id("k")
# Sinks read a source directly or through views. The source has the worst of their statuses.
_READ_BY = """WITH RECURSIVE read_by(source_id, item_id) AS (
  SELECT d.referenced_id, d.item_id FROM dependencies AS d
  JOIN items AS o ON o.id = d.referenced_id AND o.kind IN ('SOURCE', 'TABLE')
  UNION
  SELECT r.source_id, d.item_id FROM read_by AS r JOIN dependencies AS d ON d.referenced_id = r.item_id
)"""
_OWN = (
    "(o.kind = 'SOURCE' AND json_extract(o.details, '$.type') IS NOT 'progress'"
    " OR json_extract(o.details, '$.captured_as') IS NOT NULL)"
)
"""Sources, subsources, and tables that are sources, for example tables FROM WEBHOOK."""
_READ = f"({_OWN} OR json_extract(o.details, '$.source_id') IS NOT NULL)"
"""The same, and tables of a source."""
# The progress of sinks in a source: the sum over its tables of each table's slowest sink. For a captured source, the
# capture reports the server's position, and its tables are in the capture's log.
_MEASURED = f""" parts(source_id, id, known_as) AS (
  SELECT o.id, o.id, coalesce(json_extract(o.facts, '$.identity'), o.full_name) FROM items AS o
  WHERE o.kind IN ('SOURCE', 'TABLE')
  UNION ALL
  SELECT json_extract(o.details, '$.source_id'), o.id, coalesce(json_extract(o.facts, '$.identity'), o.full_name)
  FROM items AS o
  WHERE o.kind IN ('SOURCE', 'TABLE') AND json_extract(o.details, '$.source_id') IS NOT NULL
),
measured_parts AS (
  SELECT t.source_id, t.id, max(e.value ->> 'known') AS known, min(e.value ->> 'committed') AS committed,
    max(e.value ->> 'unit') AS unit, max(coalesce(e.value ->> 'lag', p.lag)) AS lag,
    min(e.value ->> 'rows') AS rows, max(e.value ->> 'of_rows') AS of_rows, min(e.value ->> 'done') AS done,
    min(e.value ->> 'chunks') AS chunks, max(e.value ->> 'of_chunks') AS of_chunks,
    max(e.value ->> 'seconds_left') AS seconds_left, max(m.measured_at) AS measured_at
  FROM parts AS t
  JOIN read_by AS r ON r.source_id = t.id
  JOIN items AS k ON k.id = r.item_id
  JOIN measures AS m ON m.id = {_JOB_OF_K}
  JOIN json_each(m.figures) AS e ON e.key = t.known_as
  LEFT JOIN progress AS p ON p.sink_id = m.id
  GROUP BY t.source_id, t.id
),
measured AS (
  SELECT source_id, sum(known) AS known, sum(committed) AS committed, max(unit) AS unit, max(lag) AS lag,
    sum(rows) AS rows, CASE WHEN count(of_rows) = count(rows) THEN sum(of_rows) END AS of_rows, min(done) AS done,
    sum(chunks) AS chunks, CASE WHEN count(of_chunks) = count(chunks) THEN sum(of_chunks) END AS of_chunks,
    max(seconds_left) AS seconds_left, max(measured_at) AS measured_at
  FROM measured_parts
  GROUP BY source_id
),
captured AS (
  SELECT o.id AS source_id, c.* FROM items AS o
  LEFT JOIN items AS s ON s.id = json_extract(o.details, '$.source_id')
  JOIN (
    SELECT m.id AS log_id, e.value ->> 'offset_known' AS known, e.value ->> 'offset_committed' AS committed,
      e.value ->> 'unit' AS unit, e.value ->> 'retained_bytes' AS retained_bytes, e.value ->> 'log_bytes' AS log_bytes,
      e.value ->> 'kept_by' AS kept_by, e.value ->> 'captured_to' AS captured_to,
      e.value ->> 'confirmed_to' AS confirmed_to, m.measured_at
    FROM measures AS m JOIN json_each(m.figures) AS e ON e.key = ''
  ) AS c ON c.log_id = coalesce(json_extract(o.facts, '$.source_id'), json_extract(s.facts, '$.source_id'))
)"""
# The status of the capture while it holds the lease.
_CAPTURES = (
    "SELECT s.* FROM statuses AS s JOIN leases AS l ON l.sink_id = s.sink_id"
    " WHERE l.owner IS NOT NULL AND l.expires >= (julianday('now') - 2440587.5) * 86400.0"
)
_WORST = (
    "CASE k.status WHEN 'failed' THEN 1 WHEN 'fenced' THEN 2 WHEN 'stalled' THEN 3 WHEN 'starting' THEN 4"
    " WHEN 'paused' THEN 5 WHEN 'running' THEN 6 WHEN 'stopped' THEN 7 ELSE 8 END"
)

_OF_CONNECTION = "json_extract(i.details, '$.options.{}')"
_UPSTREAM = """
id text
schema_name text json_extract(i.details, '$.upstream[0]')
table_name text json_extract(i.details, '$.upstream[1]')
"""


def _of_server(kind: str) -> str:
    """Return FROM and WHERE for tables that sources read from servers of a kind."""
    return f"FROM items AS i\nWHERE json_extract(i.details, '$.upstream_kind') = '{kind}'"


_AWS = ("endpoint", "region", "access_key_id", "access_key_id_secret_id", "secret_access_key_secret_id",
        "session_token", "session_token_secret_id", "assume_role_arn", "assume_role_session_name")  # fmt: skip

INTERNAL = (
    relation(
        "mz_internal.mz_sink_statuses",
        f"""
id text
name text
type text json_extract(i.details, '$.type')
last_status_change_at timestamptz coalesce(s.changed_at, i.created_at)
status text {_STATUS}
error text {_ERROR}
details jsonb {_DETAILS}
hint text s.hint
""",
        _statuses("i.kind = 'SINK'"),
    ),
    # SinkQL only: the statuses of materialized views that are computed once for several sinks.
    relation(
        "mz_internal.mz_materialized_view_statuses",
        f"""
id text
name text
last_status_change_at timestamptz coalesce(s.changed_at, i.created_at)
status text {_STATUS}
error text {_ERROR}
details jsonb {_DETAILS}
hint text s.hint
""",
        _statuses(f"i.kind = 'MATERIALIZED VIEW' AND {_VIEW_ID} IS NOT NULL"),
    ),
    relation(
        "mz_internal.mz_sink_status_history",
        """
occurred_at timestamptz h.occurred_at
sink_id text i.id
status text h.status
error text h.error
details jsonb h.details
replica_id text -
hint text h.hint
""",
        f"FROM status_history AS h\nJOIN items AS i ON i.kind = 'SINK' AND {_SINK_ID} = h.sink_id",
    ),
    relation(
        "mz_internal.mz_sink_statistics",
        """
id text
replica_id text -
messages_staged uint8 coalesce(p.messages, 0)
messages_committed uint8 coalesce(p.messages, 0)
bytes_staged uint8 coalesce(p.bytes, 0)
bytes_committed uint8 coalesce(p.bytes, 0)
""",
        f"FROM items AS i\nLEFT JOIN progress AS p ON p.sink_id = {_SINK_ID}\nWHERE i.kind = 'SINK'",
    ),
    # SinkQL only: the progress of each sink.
    relation(
        "mz_internal.mz_sink_progress",
        """
id text
desired text d.desired
behind uint8 b.behind
unit text b.unit
commits uint8 p.commits
read_rows uint8 p.read_rows
removed_rows uint8 p.removed_rows
superseded_rows uint8 p.superseded_rows
filtered_rows uint8 p.filtered_rows
dropped_rows uint8 p.dropped_rows
failed_rows uint8 p.failed_rows
stale_keys uint8 p.stale_rows
epoch uint8 p.epoch
snapshot bigint p.snapshot
lag double_precision p.lag
offsets jsonb p.offsets
committed_at timestamptz p.committed_at
last_batch text CASE p.in_spark WHEN 0 THEN 'in process' WHEN 1 THEN 'Spark' END
""",
        "FROM items AS i\n"
        f"LEFT JOIN progress AS p ON p.sink_id = {_SINK_ID}\n"
        f"LEFT JOIN desired AS d ON d.sink_id = {_SINK_ID}\n"
        "LEFT JOIN (\n"
        "  SELECT sink_id, sum(behind) AS behind, max(unit) AS unit\n"
        f"  FROM ({SINKS_BEHIND})\n"
        "  GROUP BY sink_id HAVING min(unit) = max(unit)\n"
        f") AS b ON b.sink_id = {_SINK_ID}\n"
        "WHERE i.kind = 'SINK'",
    ),
    # SinkQL only: the content of each arrangement of a sink or a materialized view job, and the rows of its operator in
    # the last batch.
    relation(
        "mz_internal.mz_state",
        """
id text
arrangement text a.key
operator text a.value ->> 'operator'
rows uint8 a.value ->> 'held_rows'
bytes uint8 a.value ->> 'bytes'
runs uint8 a.value ->> 'runs'
widest_key uint8 a.value ->> 'widest'
taken_rows uint8 a.value ->> 'taken'
given_rows uint8 a.value ->> 'gave'
fetched_bytes uint8 coalesce(a.value ->> 'fetched', 0)
""",
        f"FROM items AS i\nJOIN measures AS m ON m.id = {job_id('i')}\n"
        "JOIN json_each(m.figures, '$.\"$state\".arrangements') AS a",
    ),
    # SinkQL only: the tick of each sink or materialized view that shares sources with others.
    relation(
        "mz_internal.mz_timeline",
        """
id text
tick uint8 m.figures ->> '$."$timeline".tick'
""",
        f"FROM items AS i\nJOIN measures AS m ON m.id = {job_id('i')}\n"
        "WHERE m.figures ->> '$.\"$timeline\".tick' IS NOT NULL",
    ),
    # SinkQL only: the compactions of each sink's table, and the error of the last one.
    relation(
        "mz_internal.mz_sink_maintenance",
        """
id text
compactions uint8 coalesce(m.compactions, 0)
files_before uint8 coalesce(m.files_before, 0)
files_after uint8 coalesce(m.files_after, 0)
bytes_before uint8 coalesce(m.bytes_before, 0)
bytes_after uint8 coalesce(m.bytes_after, 0)
compacted_at timestamptz m.compacted_at
problem text m.problem
optimizing boolean coalesce(m.asked > m.done, 0)
optimized_files uint8 CASE WHEN m.begun > m.done THEN json_extract(m.outcome, '$.so_far[0]') END
files_to_optimize uint8 CASE WHEN m.begun > m.done THEN json_extract(m.outcome, '$.so_far[1]') END
""",
        f"FROM items AS i\nLEFT JOIN maintenance AS m ON m.sink_id = {_SINK_ID}\nWHERE i.kind = 'SINK'",
    ),
    relation(
        "mz_internal.mz_source_statuses",
        """
id text
name text
type text
last_status_change_at timestamptz
status text
error text
details jsonb
""",
        f"""FROM (
  {_READ_BY}
  SELECT o.id, o.name, json_extract(o.details, '$.type') AS type, coalesce(c.error, k.error) AS error,
    coalesce(c.details, k.details) AS details,
    coalesce(c.changed_at, k.last_status_change_at, o.created_at) AS last_status_change_at,
    CASE WHEN c.status IN ('stalled', 'snapshotting') THEN c.status WHEN k.id IS NULL THEN 'created'
      ELSE k.status END AS status,
    row_number() OVER (PARTITION BY o.id ORDER BY {_WORST}, k.id) AS place
  FROM items AS o
  LEFT JOIN read_by AS r ON r.source_id = o.id
  LEFT JOIN {JOB_STATUSES} AS k ON k.id = r.item_id
  LEFT JOIN ({_CAPTURES}) AS c ON c.sink_id = json_extract(o.facts, '$.source_id')
  WHERE {_OWN}
) AS i
WHERE i.place = 1""",
    ),
    relation(
        "mz_internal.mz_source_status_history",
        """
occurred_at timestamptz
source_id text
status text
error text
details jsonb
replica_id text -
""",
        f"""FROM (
  {_READ_BY}
  SELECT h.occurred_at, r.source_id, h.status, h.error, h.details
  FROM read_by AS r JOIN items AS k ON k.id = r.item_id JOIN status_history AS h ON h.sink_id = {_JOB_OF_K}
) AS i""",
    ),
    relation(
        "mz_internal.mz_source_statistics",
        """
id text
replica_id text -
messages_received uint8
bytes_received uint8
updates_staged uint8
updates_committed uint8
records_indexed uint8 0
bytes_indexed uint8 0
rehydration_latency interval -
snapshot_records_known uint8
snapshot_records_staged uint8
snapshot_committed boolean
offset_known uint8
offset_committed uint8
""",
        f"""FROM (
  {_READ_BY},{_MEASURED}
  SELECT o.id,
    sum(coalesce(p.read_rows, 0)) AS messages_received, sum(coalesce(p.bytes, 0)) AS bytes_received,
    sum(coalesce(p.messages, 0)) AS updates_staged, sum(coalesce(p.messages, 0)) AS updates_committed,
    m.of_rows AS snapshot_records_known, m.rows AS snapshot_records_staged, m.done AS snapshot_committed,
    coalesce(c.known, m.known) AS offset_known, coalesce(c.committed, m.committed) AS offset_committed
  FROM items AS o
  LEFT JOIN read_by AS r ON r.source_id = o.id
  LEFT JOIN items AS k ON k.id = r.item_id
  LEFT JOIN progress AS p ON p.sink_id = {_JOB_OF_K} AND EXISTS (
    SELECT 1 FROM parts AS t JOIN json_each(p.offsets) AS e ON e.key = t.known_as WHERE t.source_id = o.id
  )
  LEFT JOIN measured AS m ON m.source_id = o.id
  LEFT JOIN captured AS c ON c.source_id = o.id
  WHERE {_READ}
  GROUP BY o.id
) AS i""",
    ),
    # SinkQL only: the lag of a source's slowest sinks, and the data retained for them.
    relation(
        "mz_internal.mz_source_progress",
        """
id text
behind uint8
unit text
lag double_precision
consistent boolean
snapshot_chunks_known uint8
snapshot_chunks_staged uint8
snapshot_seconds_left double_precision
retained_bytes uint8
log_bytes uint8
kept_by text
captured_to text
confirmed_to text
measured_at timestamptz
""",
        f"""FROM (
  {_READ_BY},{_MEASURED}
  SELECT o.id,
    max(coalesce(c.known, m.known) - coalesce(c.committed, m.committed), 0) AS behind, coalesce(c.unit, m.unit) AS unit,
    m.lag, m.done AS consistent, m.of_chunks AS snapshot_chunks_known, m.chunks AS snapshot_chunks_staged,
    m.seconds_left AS snapshot_seconds_left, c.retained_bytes, c.log_bytes, c.kept_by, c.captured_to, c.confirmed_to,
    max(coalesce(c.measured_at, m.measured_at), coalesce(m.measured_at, c.measured_at)) AS measured_at
  FROM items AS o
  LEFT JOIN measured AS m ON m.source_id = o.id
  LEFT JOIN captured AS c ON c.source_id = o.id
  WHERE {_READ}
) AS i""",
    ),
    relation(
        "mz_internal.mz_aws_connections",
        "id text\n"
        + "\n".join(f"{name} text {_OF_CONNECTION.format(name)}" for name in _AWS)
        + "\nprincipal text -\nexternal_id text -\nexample_trust_policy jsonb -",
        "FROM items AS i\nWHERE i.kind = 'CONNECTION'\n  AND json_extract(i.details, '$.type') = 'aws'",
    ),
    relation(
        "mz_internal.mz_comments",
        "id text\nobject_type text\nobject_sub_id integer\ncomment text",
        """FROM (
  SELECT c.item_id AS id, o.type AS object_type, nullif(c.sub_id, 0) AS object_sub_id, c.comment
  FROM comments AS c
  JOIN (
    SELECT id, replace(lower(kind), ' ', '-') AS type FROM items
    UNION ALL VALUES ('s1', 'cluster'), ('s5', 'schema'), ('s6', 'database')
  ) AS o ON o.id = c.item_id
) AS i""",
    ),
    relation(
        "mz_internal.mz_object_dependencies",
        "object_id text d.item_id\nreferenced_object_id text d.referenced_id",
        "FROM dependencies AS d",
    ),
    relation(
        "mz_internal.mz_hydration_statuses",
        "object_id text i.id\nreplica_id text -\nhydrated boolean coalesce(p.commits, 0) > 0",
        f"FROM items AS i\nLEFT JOIN progress AS p ON p.sink_id = {_SINK_ID}\nWHERE i.kind = 'SINK'",
    ),
    relation(
        "mz_internal.mz_frontiers",
        "object_id text i.id\nread_frontier mz_timestamp -\n"
        "write_frontier mz_timestamp CAST((julianday(p.committed_at) - 2440587.5) * 86400000 AS INTEGER)",
        f"FROM items AS i\nLEFT JOIN progress AS p ON p.sink_id = {_SINK_ID}\nWHERE i.kind = 'SINK'",
    ),
    relation(
        "mz_internal.mz_object_fully_qualified_names",
        """
id text o.id
name text o.name
object_type text o.type
schema_id text o.schema_id
schema_name text s.name
database_id text s.database_id
database_name text d.name
cluster_id text o.cluster_id
""",
        "FROM mz_objects AS o\nJOIN mz_schemas AS s ON s.id = o.schema_id\n"
        "LEFT JOIN mz_databases AS d ON d.id = s.database_id",
    ),
    relation(
        "mz_internal.mz_object_lifetimes",
        """
id text json_extract(i.details, '$.id')
previous_id text json_extract(i.details, '$.previous_id')
object_type text i.object_type
event_type text i.event_type
occurred_at timestamptz i.occurred_at
""",
        "FROM audit_events AS i\nWHERE i.event_type IN ('create', 'drop', 'alter')",
    ),
    relation(
        "mz_internal.mz_notices",
        "id text\nnotice_type text\nmessage text\nhint text\naction text",
        """FROM (
  SELECT 'n' || k.id AS id, 'Sink ' || k.status AS notice_type, k.error AS message, k.hint,
    NULL AS action
  FROM mz_sink_statuses AS k WHERE k.status IN ('stalled', 'failed', 'fenced')
  UNION ALL
  SELECT 'n' || k.id, 'Materialized view ' || k.status, k.error, k.hint, NULL
  FROM mz_materialized_view_statuses AS k WHERE k.status IN ('stalled', 'failed', 'fenced')
) AS i""",
    ),
    # SinkQL only: the masters and the state of clusters.
    relation(
        "mz_internal.mz_cluster_masters",
        """
id text
master text json_extract(i.details, '$.master')
state text json_extract(i.details, '$.state.path')
connection_id text json_extract(i.details, '$.state.connection_id')
""",
        "FROM items AS i\nWHERE i.kind = 'CLUSTER'",
    ),
    relation(
        "mz_internal.mz_show_indexes",
        "id text\nname text\non_id text json_extract(i.details, '$.on_id')\n"
        "cluster_id text json_extract(i.details, '$.cluster_id')\nkey text json_extract(i.details, '$.key')",
        "FROM items AS i\nWHERE i.kind = 'INDEX'",
    ),
    relation(
        "mz_internal.mz_webhook_sources",
        "id text\nname text\nurl text json_extract(i.details, '$.url')",
        "FROM items AS i\nWHERE i.kind IN ('SOURCE', 'TABLE') AND json_extract(i.details, '$.type') = 'webhook'",
    ),
    relation(
        "mz_internal.mz_postgres_sources",
        "id text\nreplication_slot text 'sinkql_' || replace(json_extract(i.details, '$.captured_as'), '-', '_')\n"
        "timeline_id uint8 -",
        "FROM items AS i\nWHERE i.kind = 'SOURCE' AND json_extract(i.details, '$.type') = 'postgres'",
    ),
    relation("mz_internal.mz_postgres_source_tables", _UPSTREAM, _of_server("POSTGRES")),
    relation("mz_internal.mz_mysql_source_tables", _UPSTREAM, _of_server("MYSQL")),
)
