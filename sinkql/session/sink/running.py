"""Jobs → running sinks, under leases of the catalog; the catalog → what they are doing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sinkql import physical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.system.view import select_views
from sinkql.session.item.access import CatalogAccess
from sinkql.session.sink.roster import CatalogRoster
from sinkql.session.workspace import Workspace

if TYPE_CHECKING:
    from sinkql.runtime.batch.progress import Progress
    from sinkql.runtime.process.application import Workload
    from sinkql.runtime.sink.host import SinkOutcome

_STATUS = """
SELECT k.name, s.status, p.desired, s.details -> 'rebuild' ->> 'rows' AS rows_read_again,
  t.messages_committed AS rows, p.failed_rows AS skipped, p.commits, p.lag AS lag_seconds,
  p.committed_at AS last_commit, m.compacted_at AS last_compaction,
  m.optimized_files || ' of ' || m.files_to_optimize AS files_optimized, b.branch, s.error, s.hint, s.id
FROM mz_sinks AS k
JOIN mz_sink_statuses AS s ON s.id = k.id
JOIN mz_sink_progress AS p ON p.id = k.id
JOIN mz_sink_statistics AS t ON t.id = k.id
JOIN mz_sink_maintenance AS m ON m.id = k.id
LEFT JOIN mz_iceberg_sinks AS b ON b.id = k.id
ORDER BY k.name
"""
_WORST_FIRST = (5, 4, 3, 2, 1)


def run(
    workspace: Workspace, jobs: Sequence[physical.Job], *, once: bool, takeover: bool, progress: Progress | None
) -> int:
    """Run jobs until each has ended or was stopped; return the exit code that fits all of them."""
    from sinkql.runtime.process import supervisor  # Spark, only where something runs

    if not jobs:
        return 0
    wanted = _wanted(workspace, jobs, once=once, takeover=takeover, progress=progress)
    return _exit_code(supervisor.run(wanted))


def up(
    workspace: Workspace, jobs: Sequence[physical.Job] | None, *, once: bool, takeover: bool, progress: Progress | None
) -> int:
    """Run jobs, or all sinks that are to run, also those that come later; return the exit code that fits all."""
    from sinkql.runtime.process import supervisor  # as above

    wanted = _wanted(workspace, jobs, once=once, takeover=takeover, progress=progress)
    return _exit_code(supervisor.up(wanted))


def _wanted(
    workspace: Workspace, jobs: Sequence[physical.Job] | None, *, once: bool, takeover: bool, progress: Progress | None
) -> Workload:
    from sinkql.runtime.batch.progress import silent  # as above
    from sinkql.runtime.process.application import Workload
    from sinkql.session.sink.desk import CatalogDesk

    control = workspace.catalog.control
    for job in jobs or ():
        control.resume(job.sink_id)
    roster = CatalogRoster(workspace.catalog, jobs)
    registry = workspace.catalog.registry
    desk = CatalogDesk(workspace.catalog, roster, CatalogAccess(workspace.catalog).secret)
    return Workload(
        roster, workspace.context, registry, control, progress or silent, once=once, takeover=takeover, desk=desk
    )


def _exit_code(outcomes: Sequence[SinkOutcome]) -> int:
    codes = {outcome.exit_code for outcome in outcomes}
    return next((code for code in _WORST_FIRST if code in codes), max(codes, default=0))


def status(catalog: Catalog, sinks: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """Return columns and rows that tell what the given sinks are doing."""
    present = catalog.plans.present()
    wanted = {present[sink].id for sink in sinks if sink in present}
    table = select_views(_STATUS, catalog.database)
    return table.columns, tuple(row for row in table.rows if row[-1] in wanted)
