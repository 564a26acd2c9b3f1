"""A sink's marker ↔ the summary of a snapshot and a property of the table; finding the one that holds.

Other programs copy summaries and properties, so a marker is sealed: it names the snapshot that it was written with, and
has a digest over all that it says. One in another snapshot, or with other words, is a stranger's and does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sinkql.connector_api.stream import Checkpoint
from sinkql.connectors.iceberg.commit.lineage import AncestorCache, has_left_main
from sinkql.connectors.iceberg.table.branch import called
from sinkql.connectors.iceberg.table.metadata_file import PREFIX, SUFFIX, metadata_path, read, write_once
from sinkql.errors import SinkqlError, UnfitTableError
from sinkql.keywords import qualified_name

_INLINE_LIMIT = 2_000
_FIELDS = (
    "sink", "epoch", "claim", "commit", "offsets", "plan", "index", "state", "timestamp", "compaction", "replayed",
    "consistent", "tick",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Standing:
    """Whose a table is: the epoch and the claim of the marker that holds, and the commit that it is of."""

    epoch: int
    claim: str
    commit: str


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A marker as a table keeps it.

    `timestamp` is the last `_mz_timestamp` written (ms, 0 if none); `snapshot` and `sequence` are those of the
    snapshot that carries it, which may have expired.
    """

    marker: Checkpoint
    timestamp: int
    snapshot: int
    sequence: int


def property_name(sink: str) -> str:
    """Return the table property that repeats the sink's last marker."""
    return f"sinkql.{sink}.last"


def first_epoch_property(sink: str, epoch: int) -> dict[str, str]:
    """Return the property of the table that says with which epoch a sink began to write to it."""
    return {f"sinkql.{sink}.first": str(epoch)}


def consistency(marker: Checkpoint) -> dict[str, str]:
    """Return the property of the table that says whether its rows are those of one moment of the sink's sources."""
    if marker.consistent is None:
        return {}
    return {f"sinkql.{marker.sink}.consistent": str(marker.consistent).lower()}


def first_epoch(table: Table, sink: str) -> int | None:
    """Return the epoch with which a sink began to write to the table, if it says so."""
    found = table.properties.get(f"sinkql.{sink}.first", "")
    return int(found) if found.isdecimal() else None


def encode(
    table: Table, marker: Checkpoint, *, timestamp: int, attempt: str, compaction: str | None = None
) -> dict[str, str]:
    """Return the marker as summary properties; long offsets go into a file of the table's metadata folder.

    A compaction repeats the marker and its commit, and has an id of its own.
    """
    offsets = _offsets(marker)
    if len(offsets) > _INLINE_LIMIT:
        name = f"{PREFIX}{marker.sink}-{marker.epoch}-{attempt}-offsets{SUFFIX}"
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
        "compaction": compaction,
        "replayed": marker.replayed,
        "consistent": None if marker.consistent is None else str(marker.consistent).lower(),
        "tick": None if marker.tick is None else str(marker.tick),
    }
    return {f"sinkql.{name}": value for name, value in values.items() if value is not None}


def offsets_again(table: Table, marker: Checkpoint) -> tuple[str, bytes] | None:
    """Return name and bytes of the file in which the table has the offsets of its newest marker, if they are in one."""
    newest = next(
        (found for each in ancestry(table) if (found := own_checkpoint(each, marker.sink))), _noted(table, marker.sink)
    )
    told, offsets = json.loads((newest or {}).get("offsets", "{}")), _offsets(marker).encode()
    same = told.get("sha256") == hashlib.sha256(offsets).hexdigest()
    return (told["file"], offsets) if same else None


def _offsets(marker: Checkpoint) -> str:
    return json.dumps({"start": marker.start, "end": marker.end}, separators=(",", ":"), sort_keys=True)


def seal(encoded: Mapping[str, str], *, snapshot: int) -> dict[str, str]:
    """Return the summary properties of the snapshot that the marker is committed with."""
    values = {**_unprefixed(encoded), "snapshot": str(snapshot)}
    return {**encoded, "sinkql.snapshot": str(snapshot), "sinkql.seal": _seal(values)}


def as_property(encoded: Mapping[str, str], *, snapshot: int, sequence: int, parent: int | None) -> str:
    """Return the value of the property that goes with `encoded` in the same commit, on top of the snapshot `parent`."""
    values: dict[str, Any] = {**_unprefixed(encoded), "snapshot": str(snapshot), "sequence": sequence}
    if parent is not None:
        values["parent"] = str(parent)
    return json.dumps({**values, "seal": _seal(values)}, separators=(",", ":"))


def _unprefixed(encoded: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix("sinkql."): value for name, value in encoded.items()}


def _seal(values: Mapping[str, Any]) -> str:
    said = {name: value for name, value in values.items() if name != "seal"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def find(table: Table, sink: str) -> StoredCheckpoint | None:
    """Return the marker that holds: the newest on the ancestry of main, else, that having expired, the property's.

    Raises what `standing` does, and SQ3502 where the offsets' file is gone or changed.
    """
    found = _holding(table, sink)
    return _decode(table, found.values, found.snapshot, found.sequence) if found is not None else None


def standing(table: Table, sink: str) -> Standing | None:
    """Return what the marker that holds says of who has the table; no file is read for it.

    Raises SQ3501 where the property or another snapshot is ahead of the ancestry (the table was rolled back), SQ3508
    where nothing but strangers' copies of markers is left.
    """
    found = _holding(table, sink)
    if found is None:
        return None
    values = found.values
    return Standing(int(values["epoch"]), values["claim"], values["commit"])


@dataclass(frozen=True, slots=True)
class _Holding:
    """The values of the marker that holds, and the snapshot that carries it, or did."""

    values: Mapping[str, Any]
    snapshot: int
    sequence: int


def _holding(table: Table, sink: str) -> _Holding | None:
    noted = _noted(table, sink)
    line: list[Snapshot] = []
    copied = noted is None and property_name(sink) in table.properties
    for snapshot in ancestry(table):
        line.append(snapshot)
        values = own_checkpoint(snapshot, sink)
        if values is None:
            copied |= _says(snapshot, "sink") == sink
            continue
        sequence = snapshot.sequence_number or 0
        if _ahead(noted, snapshot) or _left(table, sink, sequence):
            raise rolled_back(table, sink)
        return _Holding(values, snapshot.snapshot_id, sequence)
    last = _last(table, sink, noted)
    if last is None:
        if copied:
            raise _strange(table, sink)
        return None
    parent = last.values.get("parent")
    if has_left_main(
        table, line, AncestorCache(last.snapshot, last.sequence, int(parent) if parent is not None else None)
    ):
        raise rolled_back(table, sink)
    return last


def _last(table: Table, sink: str, noted: Mapping[str, Any] | None) -> _Holding | None:
    """Return the sink's last commit, none of which is in what is known of main: by the property, or by its tag."""
    found = _Holding(noted, int(noted["snapshot"]), noted["sequence"]) if noted is not None else None
    for snapshot in table.metadata.snapshots:
        values, sequence = own_checkpoint(snapshot, sink), snapshot.sequence_number or 0
        if values is not None and (found is None or sequence > found.sequence):
            found = _Holding(values, snapshot.snapshot_id, sequence)
    return found


def _ahead(noted: Mapping[str, Any] | None, newest: Snapshot) -> bool:
    """Tell whether the property is of a later commit than the sink's newest one on main: an older is a stale copy."""
    if noted is None:
        return False
    sequence = newest.sequence_number or 0
    return bool(noted["sequence"] > sequence) or (
        noted["sequence"] == sequence and noted["snapshot"] != str(newest.snapshot_id)
    )


def _left(table: Table, sink: str, sequence: int) -> bool:
    """Tell whether the sink has a commit after this sequence number that is not on main's ancestry."""
    later = [each for each in table.metadata.snapshots if (each.sequence_number or 0) > sequence]
    if not any(_says(each, "sink") == sink for each in later):
        return False
    main = {each.snapshot_id for each in ancestry(table)}
    return any(own_checkpoint(each, sink) is not None for each in later if each.snapshot_id not in main)


def ancestry(table: Table) -> Iterator[Snapshot]:
    """Yield the snapshots of main from its head back, as far as they have not expired."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    current = table.metadata.current_snapshot_id
    while current is not None and current in snapshots:
        yield snapshots[current]
        current = snapshots[current].parent_snapshot_id


def own_checkpoint(snapshot: Snapshot, sink: str) -> dict[str, str] | None:
    """Return the marker's values in a snapshot's summary, if it is one of this sink, and not a copy of one."""
    return _sealed_in(snapshot) if _says(snapshot, "sink") == sink else None


def writer_of(snapshot: Snapshot) -> str | None:
    """Return the sink that made a snapshot; None for other programs, whatever their summaries copy."""
    return (_sealed_in(snapshot) or {}).get("sink")


def _sealed_in(snapshot: Snapshot) -> dict[str, str] | None:
    found = {name: value for name in (*_FIELDS, "snapshot") if (value := _says(snapshot, name)) is not None}
    if found.get("snapshot") != str(snapshot.snapshot_id) or _says(snapshot, "seal") != _seal(found):
        return None
    return found


def _says(snapshot: Snapshot, name: str) -> str | None:
    return snapshot.summary.get(f"sinkql.{name}") if snapshot.summary else None


def commit_succeeded(table: Table, sink: str, field: Literal["claim", "commit", "compaction"], value: str) -> bool:
    """Tell whether main has a marker of the sink with this claim, commit or compaction.

    Claims and compactions repeat the commit before them.
    """
    noted = _noted(table, sink)
    if noted is not None and noted.get(field) == value:
        return True
    return any((own_checkpoint(snapshot, sink) or {}).get(field) == value for snapshot in ancestry(table))


def written_by(table: Table, sink: str, commit: str) -> StoredCheckpoint | None:
    """Return the marker in the snapshot that a commit of the sink made; None where only the property is left of it."""
    found = None
    for snapshot in ancestry(table):
        values = own_checkpoint(snapshot, sink)
        if values is not None and values.get("commit") == commit:
            found = snapshot, values  # the oldest: claims and compactions after it repeat its commit
        elif values is not None:
            break
    return _decode(table, found[1], found[0].snapshot_id, found[0].sequence_number or 0) if found else None


def compacted(table: Table, sink: str, compaction: str) -> StoredCheckpoint | None:
    """Return the marker in the snapshot that a compaction of the sink made; None where it has expired."""
    for snapshot in ancestry(table):
        values = own_checkpoint(snapshot, sink)
        if values is not None and values.get("compaction") == compaction:
            return _decode(table, values, snapshot.snapshot_id, snapshot.sequence_number or 0)
    return None


def offsets_file(snapshot: Snapshot) -> str | None:
    """Return the name of the file that holds a snapshot's offsets, if they are not in its summary."""
    text = (_sealed_in(snapshot) or {}).get("offsets")
    name = json.loads(text).get("file") if text else None
    return name if isinstance(name, str) else None


def rolled_back(table: Table, sink: str) -> SinkqlError:
    """Return the error for a table whose main, or the sink's branch, no longer has what this sink committed."""
    return UnfitTableError(
        "SQ3501",
        f'table "{qualified_name(*table.name())}" was rolled back: the last commit of this sink is no longer in it',
        detail=f"The property {property_name(sink)} names a commit that is not an ancestor of {called(table)}.",
        hint="Roll the table forward again, or DROP SINK and CREATE SINK on a new table.",
    )


def _strange(table: Table, sink: str) -> SinkqlError:
    return SinkqlError(
        "SQ3508",
        f'table "{qualified_name(*table.name())}" has a marker of this sink that another program copied or changed',
        detail=f"Of the sink's own commits no snapshot is left, and the property {property_name(sink)} is not as the "
        "sink wrote it: how far it is cannot be told.",
        hint="Put the property back as it was, or DROP SINK and CREATE SINK on a new table; let other programs leave "
        "properties whose names begin with sinkql. out of their commits.",
    )


def _noted(table: Table, sink: str) -> dict[str, Any] | None:
    """Return the property's values if they are as the sink wrote them."""
    try:
        noted = json.loads(table.properties.get(property_name(sink), "null"))
    except json.JSONDecodeError:
        return None  # a stranger's, as one without its seal
    if not isinstance(noted, dict) or noted.get("sink") != sink or noted.get("seal") != _seal(noted):
        return None
    return noted


def _decode(table: Table, values: Mapping[str, Any], snapshot: int, sequence: int) -> StoredCheckpoint:
    offsets = json.loads(values["offsets"])
    if "file" in offsets:
        offsets = _read_offsets(table, offsets["file"], offsets["sha256"])
    marker = Checkpoint(
        sink=values["sink"],
        epoch=int(values["epoch"]),
        claim=values["claim"],
        commit=values["commit"],
        start=offsets["start"],
        end=offsets["end"],
        plan=values["plan"],
        index=values.get("index"),
        state=values.get("state"),
        replayed=values.get("replayed"),
        consistent=values["consistent"] == "true" if "consistent" in values else None,
        tick=int(values["tick"]) if "tick" in values else None,
    )
    return StoredCheckpoint(marker, timestamp=int(values.get("timestamp", 0)), snapshot=snapshot, sequence=sequence)


def _read_offsets(table: Table, name: str, digest: str) -> Any:
    data = read(table, metadata_path(table, name))
    if data is None or hashlib.sha256(data).hexdigest() != digest:
        state = "is gone" if data is None else "was changed"
        raise SinkqlError(
            "SQ3502",
            f'the file "{name}" with the sink\'s offsets {state}',
            detail=f"It belongs in the metadata folder of table {'.'.join(table.name())}.",
            hint="Restore the file; it must not be removed while the table is written to.",
        )
    return json.loads(data)
