"""A sink's marker ↔ the summary of a snapshot and a property of the table; finding the one that holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sinkql.connector.stream import Marker
from sinkql.connectors.iceberg.folder import SUFFIX, metadata_path, read, write_once
from sinkql.errors import SinkqlError

_INLINE_LIMIT = 2_000
_FIELDS = ("sink", "epoch", "claim", "commit", "offsets", "plan", "index", "state", "timestamp")


@dataclass(frozen=True, slots=True)
class Kept:
    """Hold a marker as a table keeps it.

    `timestamp` is the last `_mz_timestamp` written (ms, 0 if none); `snapshot` and `sequence` are those of the
    snapshot that carries it, which may have expired.
    """

    marker: Marker
    timestamp: int
    snapshot: int
    sequence: int


def property_name(sink: str) -> str:
    """Return the table property that repeats the sink's last marker."""
    return f"sinkql.{sink}.last"


def encode(table: Table, marker: Marker, *, timestamp: int, attempt: str) -> dict[str, str]:
    """Return the marker as summary properties; long offsets go into a file of the table's metadata folder."""
    offsets = json.dumps({"start": marker.start, "end": marker.end}, separators=(",", ":"), sort_keys=True)
    if len(offsets) > _INLINE_LIMIT:
        name = f"sinkql-{marker.sink}-{marker.epoch}-{attempt}-offsets{SUFFIX}"
        write_once(table, metadata_path(table, name), offsets.encode())
        offsets = json.dumps({"file": name, "sha256": hashlib.sha256(offsets.encode()).hexdigest()})
    values = {
        "sink": marker.sink,
        "epoch": str(marker.epoch),
        "claim": marker.claim,
        "commit": marker.commit,
        "offsets": offsets,
        "plan": marker.plan,
        "index": marker.index,
        "state": marker.state,
        "timestamp": str(timestamp) if timestamp else None,
    }
    return {f"sinkql.{name}": value for name, value in values.items() if value is not None}


def as_property(encoded: Mapping[str, str], *, snapshot: int, sequence: int) -> str:
    """Return the value of the property that goes with `encoded` in the same commit."""
    values: dict[str, Any] = {name.removeprefix("sinkql."): value for name, value in encoded.items()}
    return json.dumps({**values, "snapshot": str(snapshot), "sequence": sequence}, separators=(",", ":"))


def find(table: Table, sink: str) -> Kept | None:
    """Return the marker that holds: the newest on the ancestry of main, else, that having expired, the property's.

    Raises SQ3501 where the property is ahead of the ancestry (the table was rolled back), SQ3502 where the offsets'
    file is gone or changed.
    """
    noted = _noted(table, sink)
    last: Snapshot | None = None
    for snapshot in ancestry(table):
        last = snapshot
        values = own(snapshot, sink)
        if values is None:
            continue
        if noted is not None and (noted["commit"], noted["claim"]) != (values.get("commit"), values.get("claim")):
            raise rolled_back(table, sink)
        return _decode(table, values, snapshot.snapshot_id, snapshot.sequence_number or 0)
    if noted is None:
        return None
    # A parent of None does not mean that this is where the table began: some catalogs cut it off when they expire.
    known = any(str(snapshot.snapshot_id) == noted["snapshot"] for snapshot in table.metadata.snapshots)
    if known or last is None or noted["sequence"] >= (last.sequence_number or 0):
        raise rolled_back(table, sink)
    return _decode(table, noted, int(noted["snapshot"]), noted["sequence"])


def ancestry(table: Table) -> Iterator[Snapshot]:
    """Yield the snapshots of main from its head back, as far as they have not expired."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    current = table.metadata.current_snapshot_id
    while current is not None and current in snapshots:
        yield snapshots[current]
        current = snapshots[current].parent_snapshot_id


def own(snapshot: Snapshot, sink: str) -> dict[str, str] | None:
    """Return the marker's values in a snapshot's summary, if it is one of this sink."""
    if snapshot.summary is None or snapshot.summary.get("sinkql.sink") != sink:
        return None
    found = {name: snapshot.summary.get(f"sinkql.{name}") for name in _FIELDS}
    return {name: value for name, value in found.items() if value is not None}


def landed(table: Table, sink: str, field: Literal["claim", "commit"], value: str) -> bool:
    """Tell whether main has a marker of the sink with this claim or commit: claims repeat the commit before them."""
    noted = _noted(table, sink)
    if noted is not None and noted[field] == value:
        return True
    return any((own(snapshot, sink) or {}).get(field) == value for snapshot in ancestry(table))


def written(table: Table, sink: str, commit: str) -> Kept | None:
    """Return the marker in the snapshot that a commit of the sink made; None where only the property is left of it."""
    found = None
    for snapshot in ancestry(table):
        values = own(snapshot, sink)
        if values is not None and values.get("commit") == commit:
            found = snapshot, values  # the oldest: claims after it repeat its commit
        elif values is not None:
            break
    return _decode(table, found[1], found[0].snapshot_id, found[0].sequence_number or 0) if found else None


def offsets_file(snapshot: Snapshot) -> str | None:
    """Return the name of the file that holds a snapshot's offsets, if they are not in its summary."""
    text = snapshot.summary.get("sinkql.offsets") if snapshot.summary else None
    name = json.loads(text).get("file") if text else None
    return name if isinstance(name, str) else None


def rolled_back(table: Table, sink: str) -> SinkqlError:
    """Return the error for a table whose main no longer has what this sink committed."""
    return SinkqlError(
        "SQ3501",
        f'table "{".".join(table.name())}" was rolled back: its last commit by this sink is no longer in it',
        detail=f"The property {property_name(sink)} names a commit that is not an ancestor of main.",
        hint="Roll the table forward again, or DROP SINK and CREATE SINK on a new table.",
    )


def _noted(table: Table, sink: str) -> dict[str, Any] | None:
    value = table.properties.get(property_name(sink))
    if value is None:
        return None
    noted: dict[str, Any] = json.loads(value)
    return noted


def _decode(table: Table, values: Mapping[str, Any], snapshot: int, sequence: int) -> Kept:
    offsets = json.loads(values["offsets"])
    if "file" in offsets:
        offsets = _read_offsets(table, offsets["file"], offsets["sha256"])
    marker = Marker(
        sink=values["sink"],
        epoch=int(values["epoch"]),
        claim=values["claim"],
        commit=values["commit"],
        start=offsets["start"],
        end=offsets["end"],
        plan=values["plan"],
        index=values.get("index"),
        state=values.get("state"),
    )
    return Kept(marker, timestamp=int(values.get("timestamp", 0)), snapshot=snapshot, sequence=sequence)


def _read_offsets(table: Table, name: str, digest: str) -> Any:
    data = read(table, metadata_path(table, name))
    if data is None or hashlib.sha256(data).hexdigest() != digest:
        state = "is gone" if data is None else "was changed"
        raise SinkqlError(
            "SQ3502",
            f'the file "{name}" with the sink\'s offsets {state}',
            detail=f"It belongs into the metadata folder of table {'.'.join(table.name())}.",
            hint="Restore the file; it must not be removed while the table is written to.",
        )
    return json.loads(data)
