"""What EXPOSE PROGRESS names → how far its source is read, by what the catalog knows of its sinks and its capture."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sinkql import logical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import IDENTITY
from sinkql.connector_api.stream import Offsets


def progress_rows(item: logical.Source, catalog: Catalog) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a source's progress; none before anything is known."""
    name = item.options["source"]
    source, entry = catalog.plans.item(name), catalog.plans.entry(name)
    assert isinstance(source, logical.Source)
    assert entry is not None
    kind = catalog.registry.sources[source.kind].progress
    assert kind is not None, "planned where there is one"
    captured = _captured(str(entry.facts["source_id"]), catalog) if "source_id" in entry.facts else None
    return kind.rows(list(_committed(name, entry.facts.get(IDENTITY, name), catalog)), captured)


def _committed(name: str, known_as: str, catalog: Catalog) -> Iterator[Offsets]:
    """Yield the offsets that each sink has committed."""
    plans = catalog.plans
    entries = (plans.entry(each) for each in plans.all_users(name))
    ids = [each.facts["sink_id"] for each in entries if each is not None and each.kind == "SINK"]
    with catalog.database.read() as connection:
        for id_ in ids:
            row = connection.execute("SELECT offsets FROM progress WHERE sink_id = ?", (id_,)).fetchone()
            found = json.loads(row[0]).get(known_as) if row is not None else None
            if found is not None:
                yield found


def _captured(source_id: str, catalog: Catalog) -> str | None:
    """Return up to where the log of a captured source has all changes."""
    with catalog.database.read() as connection:
        row = connection.execute("SELECT figures FROM measures WHERE id = ?", (source_id,)).fetchone()
    return None if row is None else json.loads(row[0]).get("", {}).get("captured_to")
