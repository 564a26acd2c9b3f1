"""Run jobs, and report the status of sinks and sources."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sinkql import physical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.system.mz_internal import JOB_STATUSES, SINKS_BEHIND, job_id
from sinkql.catalog.system.view import select_views
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.result import Workspace
from sinkql.session.sink.workload import CatalogWorkload

if TYPE_CHECKING:
    from sinkql.runtime.batch.events import Progress
    from sinkql.runtime.process.application import RunSpec
    from sinkql.runtime.sink.host import SinkOutcome

_WIDE_KEY_ROWS = 1_000_000
"""The number of rows of one key from which a warning is shown."""
_WIDE_HINT = (
    "'A key of the ' || CASE k.kind WHEN 'SINK' THEN 'sink' ELSE 'view' END || '''s state has ' || w.widest_key"
    " || ' rows. A change of the key may read or write all of them. EXPLAIN PHYSICAL PLAN WITH (STATE) FOR ' || k.kind"
    " || ' ' || k.name || ' shows the place.'"
)
_STATUS = f"""
WITH jobs AS (
  SELECT i.id, i.name, i.kind, {job_id("i")} AS job_id FROM items AS i
  WHERE i.kind = 'SINK' OR {job_id("i")} IS NOT NULL
),
measured AS (
  SELECT m.id, max(e.value ->> 'lag') AS lag, sum(e.value ->> 'rows') AS rows,
    CASE WHEN count(e.value ->> 'of_rows') = count(e.value ->> 'rows') THEN sum(e.value ->> 'of_rows') END AS of_rows,
    max(e.value ->> 'seconds_left') AS seconds_left, min(e.value ->> 'done') AS done
  FROM measures AS m JOIN json_each(m.figures) AS e
  GROUP BY m.id
),
far AS (
  SELECT sink_id, group_concat(behind || ' ' || unit, ', ') AS behind FROM ({SINKS_BEHIND}) GROUP BY sink_id
),
state AS (
  SELECT m.id, max(a.value ->> 'widest') AS widest_key,
    CASE WHEN m.figures ->> '$."$state".read' > 0 THEN
      round((m.figures ->> '$."$state".given') * 1.0 / (m.figures ->> '$."$state".read'), 1) END AS amplification
  FROM measures AS m JOIN json_each(m.figures, '$."$state".arrangements') AS a
  GROUP BY m.id
)
SELECT k.name, s.status, d.desired, lower(k.kind) AS type, s.details -> 'rebuild' ->> 'rows' AS rows_read_again,
  CASE WHEN NOT f.done THEN f.rows || coalesce(' of about ' || f.of_rows, '') END AS snapshot,
  CASE WHEN NOT f.done THEN f.seconds_left END AS seconds_left,
  coalesce(p.messages, 0) AS rows, p.failed_rows AS skipped, p.stale_rows AS stale_keys, p.commits, b.behind,
  coalesce(f.lag, p.lag) AS lag_seconds,
  p.committed_at AS last_commit, CASE p.in_spark WHEN 0 THEN 'in process' WHEN 1 THEN 'Spark' END AS last_batch,
  m.compacted_at AS last_compaction,
  m.optimized_files || ' of ' || m.files_to_optimize AS files_optimized, g.branch, w.amplification, w.widest_key,
  s.error, coalesce(s.hint, CASE WHEN w.widest_key > {_WIDE_KEY_ROWS} THEN {_WIDE_HINT} END) AS hint, s.id
FROM jobs AS k
JOIN {JOB_STATUSES} AS s ON s.id = k.id
LEFT JOIN desired AS d ON d.sink_id = k.job_id
LEFT JOIN progress AS p ON p.sink_id = k.job_id
LEFT JOIN mz_sink_maintenance AS m ON m.id = k.id
LEFT JOIN measured AS f ON f.id = k.job_id
LEFT JOIN state AS w ON w.id = k.job_id
LEFT JOIN far AS b ON b.sink_id = k.job_id
LEFT JOIN mz_iceberg_sinks AS g ON g.id = k.id
ORDER BY k.kind <> 'SINK', k.name
"""
_SOURCE_STATUS = f"""
WITH RECURSIVE reads(sink_id, id) AS (
  SELECT i.id, d.referenced_id FROM items AS i JOIN dependencies AS d ON d.item_id = i.id
  WHERE i.kind = 'SINK' OR {job_id("i")} IS NOT NULL
  UNION
  SELECT r.sink_id, d.referenced_id FROM reads AS r JOIN dependencies AS d ON d.item_id = r.id
)
SELECT s.name AS source, s.status, p.behind || ' ' || p.unit AS behind, p.lag AS lag_seconds,
  p.retained_bytes || ' bytes' AS retained, p.log_bytes || ' bytes' AS log, p.kept_by,
  CASE WHEN s.error NOT IN (SELECT k.error FROM {JOB_STATUSES} AS k WHERE k.error IS NOT NULL) THEN s.error END
    AS error,
  json_group_array(r.sink_id) AS read_by
FROM mz_source_statuses AS s
JOIN reads AS r ON r.id = s.id
LEFT JOIN mz_source_progress AS p ON p.id = s.id
WHERE s.type NOT IN ('subsource', 'progress')
GROUP BY s.id
ORDER BY s.name
"""
_WORST_FIRST = (5, 4, 3, 2, 1)


def run_jobs(
    workspace: Workspace,
    jobs: Sequence[physical.Job],
    *,
    once: bool,
    takeover: bool,
    progress: Progress | None,
    in_spark: bool = False,
) -> int:
    """Run jobs until each has ended or was stopped, and return the joint exit code.

    If `in_spark`, Spark runs all batches, also on clusters with EXECUTION = AUTO.
    """
    from sinkql.runtime.process import supervisor  # loads Spark, which only running sinks need

    if not jobs:
        return 0
    spec = _run_spec(workspace, jobs, once=once, takeover=takeover, progress=progress, in_spark=in_spark)
    return _exit_code(supervisor.run_until_done(spec))


def run_catalog(
    workspace: Workspace, jobs: Sequence[physical.Job] | None, *, once: bool, takeover: bool, progress: Progress | None
) -> int:
    """Run the jobs, or all sinks that should run, including later ones. Return the joint exit code."""
    from sinkql.runtime.process import supervisor  # as above

    spec = _run_spec(workspace, jobs, once=once, takeover=takeover, progress=progress)
    return _exit_code(supervisor.run_until_stopped(spec))


def _run_spec(
    workspace: Workspace,
    jobs: Sequence[physical.Job] | None,
    *,
    once: bool,
    takeover: bool,
    progress: Progress | None,
    in_spark: bool = False,
) -> RunSpec:
    from sinkql.runtime.batch.events import silent  # as above
    from sinkql.runtime.process.application import RunSpec
    from sinkql.session.sink.capture_directory import CatalogCaptureDirectory

    control = workspace.catalog.control
    for job in jobs or ():
        control.resume(job.sink_id)
    workload = CatalogWorkload(workspace.catalog, jobs, in_spark=in_spark)
    registry = workspace.catalog.registry
    directory = CatalogCaptureDirectory(workspace.catalog, workload, CatalogAccess(workspace.catalog).secret)
    return RunSpec(
        workload,
        workspace.context,
        registry,
        control,
        progress or silent,
        once=once,
        takeover=takeover,
        captures=directory,
    )


def _exit_code(outcomes: Sequence[SinkOutcome]) -> int:
    codes = {outcome.exit_code for outcome in outcomes}
    return next((code for code in _WORST_FIRST if code in codes), max(codes, default=0))


def status(catalog: Catalog, sinks: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """Return columns and rows with the status of jobs."""
    ids = _ids(catalog, sinks)
    table = select_views(_STATUS, catalog.database)
    return table.columns, tuple(row for row in table.rows if row[-1] in ids)


def source_status(catalog: Catalog, sinks: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """Return columns and rows with the status of the sources that jobs read."""
    ids = _ids(catalog, sinks)
    table = select_views(_SOURCE_STATUS, catalog.database)
    return table.columns[:-1], tuple(row[:-1] for row in table.rows if not ids.isdisjoint(json.loads(row[-1])))


def _ids(catalog: Catalog, sinks: Sequence[str]) -> set[str]:
    present = catalog.plans.present()
    return {present[sink].id for sink in sinks if sink in present}
