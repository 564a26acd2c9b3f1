"""What captures have told of their sources' logs, and the folders of logs → what keeps more than it should."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sinkql import logical
from sinkql.capture.log import FOLDER
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.cdc import captured_source
from sinkql.connector_api.health_check import HealthCheck
from sinkql.errors import SinkqlError
from sinkql.planner.name import short_name

_NEARLY = 0.8
_LATE = (
    "Start the sinks of the source that do not run, or drop those that are not needed any more: SELECT * FROM "
    "mz_internal.mz_sink_progress has how far they are."
)


def checks_of_logs(catalog: Catalog) -> Iterator[HealthCheck]:
    """Yield logs that sinks leave behind, by what was told last, and logs that no source has."""
    reader = catalog.reader()
    ids = set[str]()
    for kind in ("SOURCE", "TABLE"):
        for name in reader.names(kind):
            source_id = reader.facts(name).get("source_id")
            if source_id is None:
                continue
            ids.add(source_id)
            try:
                item = catalog.plans.item(name)
            except SinkqlError:
                continue  # the catalog's own check tells
            if isinstance(item, logical.Source) and "tuning" in item.options:
                yield from _of_source(short_name(name, reader), item, _told(source_id, catalog))
    yield from _of_nobody(catalog.database.folder / FOLDER, ids)


def _told(source_id: str, catalog: Catalog) -> Mapping[str, Any]:
    """Return the figures that the capture of a source told last."""
    with catalog.database.read() as connection:
        row = connection.execute("SELECT figures FROM measures WHERE id = ?", (source_id,)).fetchone()
    found: Mapping[str, Any] = json.loads(row[0]).get("", {}) if row is not None else {}
    return found


def _of_source(name: str, item: logical.Source, told: Mapping[str, Any]) -> Iterator[HealthCheck]:
    if "kept_by" not in told:
        return
    _, keeping = captured_source(item.kind, item.options, None)
    size, retained = told["log_bytes"], told["retained_bytes"]
    found = f"{size} bytes of {keeping.max_log}, {retained} bytes are kept on the server"
    if size > keeping.max_log * _NEARLY:
        fix = f"{_LATE} ALTER SOURCE … SET (MAX LOG SIZE = …) makes more room."
        yield HealthCheck(f"{name}: log", "warning", f"{found}: it takes in nothing more once it is full", fix)
    elif keeping.keep == "server" and told["kept_by"] == "log":
        kept = "it keeps what sinks have not read, as the server had more than MAX RETAINED WAL to keep"
        yield HealthCheck(f"{name}: log", "warning", f"{found}: {kept}", _LATE)
    else:
        yield HealthCheck(f"{name}: log", "ok", found)


def _of_nobody(folder: Path, ids: set[str]) -> Iterator[HealthCheck]:
    try:
        left = sorted(each for each in folder.iterdir() if each.is_dir() and each.name not in ids)
    except OSError:
        return
    for each in left:
        yield HealthCheck(
            f"log {each.name}",
            "warning",
            f"{each} belongs to no source of this catalog, as where the catalog was put back from a copy",
            f"Delete it, unless another catalog in that folder has the source: rm -r '{each}'",
        )
