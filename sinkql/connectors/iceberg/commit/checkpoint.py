"""Store a sink's checkpoint in a snapshot's summary and a table property, and find the valid one.

Other programs copy summaries and properties, so a checkpoint is sealed. The seal names the snapshot that carries the
checkpoint, and is a digest over all its values. A checkpoint in another snapshot, or with changed values, does not
count.
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
from sinkql.connectors.iceberg.table.branch import branch_text
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
    """The owner of a table: the epoch, claim and commit of its valid checkpoint."""

    epoch: int
    claim: str
    commit: str


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as a table stores it.

    `timestamp` is the last `_mz_timestamp` written (ms, 0 if none). `snapshot` and `sequence` belong to the snapshot
    that carries the checkpoint, which may have expired.
    """

    checkpoint: Checkpoint
    timestamp: int
    snapshot: int
    sequence: int


def property_name(sink: str) -> str:
    """Return the table property that repeats the sink's last checkpoint."""
    return f"sinkql.{sink}.last"


def first_epoch_property(sink: str, epoch: int) -> dict[str, str]:
    """Return the table property with the epoch in which a sink began to write to the table."""
    return {f"sinkql.{sink}.first": str(epoch)}


def consistency(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the table property that says whether all rows belong to one moment of the sink's sources."""
    if checkpoint.consistent is None:
        return {}
    return {f"sinkql.{checkpoint.sink}.consistent": str(checkpoint.consistent).lower()}


def first_epoch(table: Table, sink: str) -> int | None:
    """Return the epoch in which a sink began to write to the table; None if no property says it."""
    epoch = table.properties.get(f"sinkql.{sink}.first", "")
    return int(epoch) if epoch.isdecimal() else None


def encode(
    table: Table, checkpoint: Checkpoint, *, timestamp: int, attempt: str, compaction: str | None = None
) -> dict[str, str]:
    """Return the checkpoint as summary properties; write long offsets to a file in the metadata folder.

    A compaction repeats the checkpoint and its commit, and adds an id for itself.
    """
    offsets = _encode_offsets(checkpoint)
    if len(offsets) > _INLINE_LIMIT:
        name = f"{PREFIX}{checkpoint.sink}-{checkpoint.epoch}-{attempt}-offsets{SUFFIX}"
        write_once(table, metadata_path(table, name), offsets.encode())
        offsets = json.dumps({"file": name, "sha256": hashlib.sha256(offsets.encode()).hexdigest()})
    values = {
        "sink": checkpoint.sink,
        "epoch": str(checkpoint.epoch),
        "claim": checkpoint.claim,
        "commit": checkpoint.commit,
        "offsets": offsets,
        "plan": checkpoint.plan,
        "index": checkpoint.index,
        "state": checkpoint.state,
        "timestamp": str(timestamp) if timestamp else None,
        "compaction": compaction,
        "replayed": checkpoint.replayed,
        "consistent": None if checkpoint.consistent is None else str(checkpoint.consistent).lower(),
        "tick": None if checkpoint.tick is None else str(checkpoint.tick),
    }
    return {f"sinkql.{name}": value for name, value in values.items() if value is not None}


def offsets_again(table: Table, checkpoint: Checkpoint) -> tuple[str, bytes] | None:
    """Return name and bytes of the file with the offsets of the table's newest checkpoint, if in a file."""
    newest = next(
        (values for snapshot in ancestry(table) if (values := own_checkpoint(snapshot, checkpoint.sink))),
        _read_property(table, checkpoint.sink),
    )
    stored, offsets = json.loads((newest or {}).get("offsets", "{}")), _encode_offsets(checkpoint).encode()
    same = stored.get("sha256") == hashlib.sha256(offsets).hexdigest()
    return (stored["file"], offsets) if same else None


def _encode_offsets(checkpoint: Checkpoint) -> str:
    return json.dumps({"start": checkpoint.start, "end": checkpoint.end}, separators=(",", ":"), sort_keys=True)


def seal(encoded: Mapping[str, str], *, snapshot: int) -> dict[str, str]:
    """Return the summary properties of the snapshot that carries the checkpoint."""
    values = {**_unprefixed(encoded), "snapshot": str(snapshot)}
    return {**encoded, "sinkql.snapshot": str(snapshot), "sinkql.seal": _seal(values)}


def as_property(encoded: Mapping[str, str], *, snapshot: int, sequence: int, parent: int | None) -> str:
    """Return the property value that goes with `encoded` in a commit on top of the snapshot `parent`."""
    values: dict[str, Any] = {**_unprefixed(encoded), "snapshot": str(snapshot), "sequence": sequence}
    if parent is not None:
        values["parent"] = str(parent)
    return json.dumps({**values, "seal": _seal(values)}, separators=(",", ":"))


def _unprefixed(encoded: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix("sinkql."): value for name, value in encoded.items()}


def _seal(values: Mapping[str, Any]) -> str:
    sealed = {name: value for name, value in values.items() if name != "seal"}
    return hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()[:32]


def find(table: Table, sink: str) -> StoredCheckpoint | None:
    """Return the valid checkpoint: the newest on main, or the property's if that snapshot has expired.

    Raises as `standing` does, and SQ3502 if the offsets file is missing or changed.
    """
    holding = _find_holding(table, sink)
    return _decode(table, holding.values, holding.snapshot, holding.sequence) if holding is not None else None


def standing(table: Table, sink: str) -> Standing | None:
    """Return who owns the table by its valid checkpoint, without reading a file.

    Raises SQ3501 if the property or another snapshot is ahead of main, that is, the table was rolled back. Raises
    SQ3508 if only checkpoints that other programs copied are left.
    """
    holding = _find_holding(table, sink)
    if holding is None:
        return None
    values = holding.values
    return Standing(int(values["epoch"]), values["claim"], values["commit"])


@dataclass(frozen=True, slots=True)
class _Holding:
    """The values of the valid checkpoint, and the snapshot that carries or carried it."""

    values: Mapping[str, Any]
    snapshot: int
    sequence: int


def _find_holding(table: Table, sink: str) -> _Holding | None:
    stored = _read_property(table, sink)
    line: list[Snapshot] = []
    copied = stored is None and property_name(sink) in table.properties
    for snapshot in ancestry(table):
        line.append(snapshot)
        values = own_checkpoint(snapshot, sink)
        if values is None:
            copied |= _summary_value(snapshot, "sink") == sink
            continue
        sequence = snapshot.sequence_number or 0
        if _is_ahead(stored, snapshot) or _has_left(table, sink, sequence):
            raise rolled_back(table, sink)
        return _Holding(values, snapshot.snapshot_id, sequence)
    last = _last_commit(table, sink, stored)
    if last is None:
        if copied:
            raise _copied_checkpoint_error(table, sink)
        return None
    parent = last.values.get("parent")
    if has_left_main(
        table, line, AncestorCache(last.snapshot, last.sequence, int(parent) if parent is not None else None)
    ):
        raise rolled_back(table, sink)
    return last


def _last_commit(table: Table, sink: str, stored: Mapping[str, Any] | None) -> _Holding | None:
    """Return the sink's last commit, by the property or a tagged snapshot, if main no longer shows one."""
    last = _Holding(stored, int(stored["snapshot"]), stored["sequence"]) if stored is not None else None
    for snapshot in table.metadata.snapshots:
        values, sequence = own_checkpoint(snapshot, sink), snapshot.sequence_number or 0
        if values is not None and (last is None or sequence > last.sequence):
            last = _Holding(values, snapshot.snapshot_id, sequence)
    return last


def _is_ahead(stored: Mapping[str, Any] | None, newest: Snapshot) -> bool:
    """Return whether the property belongs to a later commit than the sink's newest one on main.

    An older property is a stale copy.
    """
    if stored is None:
        return False
    sequence = newest.sequence_number or 0
    return bool(stored["sequence"] > sequence) or (
        stored["sequence"] == sequence and stored["snapshot"] != str(newest.snapshot_id)
    )


def _has_left(table: Table, sink: str, sequence: int) -> bool:
    """Return whether the sink has a commit after this sequence number that main does not contain."""
    later = [snapshot for snapshot in table.metadata.snapshots if (snapshot.sequence_number or 0) > sequence]
    if not any(_summary_value(snapshot, "sink") == sink for snapshot in later):
        return False
    main = {snapshot.snapshot_id for snapshot in ancestry(table)}
    return any(own_checkpoint(snapshot, sink) is not None for snapshot in later if snapshot.snapshot_id not in main)


def ancestry(table: Table) -> Iterator[Snapshot]:
    """Yield the snapshots of main that have not expired, newest first.

    Programs append snapshots, so parents are looked for from the end: most callers need only the first of hundreds.
    """
    current, later = table.metadata.current_snapshot_id, dict[int, Snapshot]()
    earlier = iter(reversed(table.metadata.snapshots))
    while current is not None:
        ancestor = later.get(current)
        while ancestor is None and (snapshot := next(earlier, None)) is not None:
            later[snapshot.snapshot_id] = snapshot
            ancestor = later.get(current)
        if ancestor is None:
            return
        yield ancestor
        current = ancestor.parent_snapshot_id


def own_checkpoint(snapshot: Snapshot, sink: str) -> dict[str, str] | None:
    """Return the checkpoint's values in a snapshot that this sink made; None for copies and other writers."""
    return _sealed_values(snapshot) if _summary_value(snapshot, "sink") == sink else None


def writer_of(snapshot: Snapshot) -> str | None:
    """Return the sink that made a snapshot; None for other programs, even if they copied its summary."""
    return (_sealed_values(snapshot) or {}).get("sink")


def _sealed_values(snapshot: Snapshot) -> dict[str, str] | None:
    values = {name: value for name in (*_FIELDS, "snapshot") if (value := _summary_value(snapshot, name)) is not None}
    if values.get("snapshot") != str(snapshot.snapshot_id) or _summary_value(snapshot, "seal") != _seal(values):
        return None
    return values


def _summary_value(snapshot: Snapshot, name: str) -> str | None:
    return snapshot.summary.get(f"sinkql.{name}") if snapshot.summary else None


def commit_succeeded(table: Table, sink: str, field: Literal["claim", "commit", "compaction"], value: str) -> bool:
    """Return whether main has a checkpoint of the sink with this claim, commit or compaction.

    Claims and compactions repeat the commit before them.
    """
    stored = _read_property(table, sink)
    if stored is not None and stored.get(field) == value:
        return True
    return any((own_checkpoint(snapshot, sink) or {}).get(field) == value for snapshot in ancestry(table))


def written_by(table: Table, sink: str, commit: str) -> StoredCheckpoint | None:
    """Return the checkpoint of the snapshot that a commit made; None if only the property remains."""
    match = None
    for snapshot in ancestry(table):
        values = own_checkpoint(snapshot, sink)
        if values is not None and values.get("commit") == commit:
            match = snapshot, values  # the oldest: claims and compactions after it repeat its commit
        elif values is not None:
            break
    return _decode(table, match[1], match[0].snapshot_id, match[0].sequence_number or 0) if match else None


def compacted(table: Table, sink: str, compaction: str) -> StoredCheckpoint | None:
    """Return the checkpoint of the snapshot that a compaction made; None if it has expired."""
    for snapshot in ancestry(table):
        values = own_checkpoint(snapshot, sink)
        if values is not None and values.get("compaction") == compaction:
            return _decode(table, values, snapshot.snapshot_id, snapshot.sequence_number or 0)
    return None


def offsets_file(snapshot: Snapshot) -> str | None:
    """Return the name of the file with a snapshot's offsets; None if its summary holds them."""
    text = (_sealed_values(snapshot) or {}).get("offsets")
    name = json.loads(text).get("file") if text else None
    return name if isinstance(name, str) else None


def rolled_back(table: Table, sink: str) -> SinkqlError:
    """Return the error for a table whose main, or the sink's branch, lost a commit of this sink."""
    lost = _lost_commit(table, sink)
    branch = branch_text(table)
    if lost is None:
        detail = f"A commit of the sink is no longer part of {branch}."
    elif any(snapshot.snapshot_id == lost for snapshot in table.metadata.snapshots):
        detail = f"The sink's last commit is snapshot {lost}. The table still has it, but it is not part of {branch}."
    else:
        detail = f"The sink's last commit is snapshot {lost}, which the table no longer has."
    return UnfitTableError(
        "SQ3501",
        f'table "{qualified_name(*table.name())}" was rolled back: it no longer has the last commit of this sink',
        detail=detail,
        hint="Roll the table forward to that snapshot, if it still has it. Otherwise write WITH (EXISTING ROWS = "
        "REPLACE) in the script of an upsert sink, and run sinkql plan with all scripts, then sinkql apply. Create an "
        "append sink again with a new table.",
    )


def _lost_commit(table: Table, sink: str) -> int | None:
    """Return the snapshot of the sink's last commit if main does not contain it; None if it is unknown."""
    last = _last_commit(table, sink, _read_property(table, sink))
    if last is None or any(snapshot.snapshot_id == last.snapshot for snapshot in ancestry(table)):
        return None
    return last.snapshot


def _copied_checkpoint_error(table: Table, sink: str) -> SinkqlError:
    return SinkqlError(
        "SQ3508",
        f'table "{qualified_name(*table.name())}" has a checkpoint of this sink that another program copied or changed',
        detail="No snapshot of the sink's commits is left, and another program wrote or changed the property "
        f"{property_name(sink)}. The sink's offsets are therefore unknown.",
        hint="Restore the property, or DROP SINK and CREATE SINK on a new table. Configure other programs not to write "
        "properties whose names begin with sinkql.",
    )


def _read_property(table: Table, sink: str) -> dict[str, Any] | None:
    """Return the property's values if the sink wrote them."""
    try:
        values = json.loads(table.properties.get(property_name(sink), "null"))
    except json.JSONDecodeError:
        return None  # another program wrote it, as if it had no seal
    if not isinstance(values, dict) or values.get("sink") != sink or values.get("seal") != _seal(values):
        return None
    return values


def _decode(table: Table, values: Mapping[str, Any], snapshot: int, sequence: int) -> StoredCheckpoint:
    offsets = json.loads(values["offsets"])
    if "file" in offsets:
        offsets = _read_offsets(table, offsets["file"], offsets["sha256"])
    checkpoint = Checkpoint(
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
    return StoredCheckpoint(checkpoint, timestamp=int(values.get("timestamp", 0)), snapshot=snapshot, sequence=sequence)


def _read_offsets(table: Table, name: str, digest: str) -> Any:
    data = read(table, metadata_path(table, name))
    if data is None or hashlib.sha256(data).hexdigest() != digest:
        state = "is missing" if data is None else "was changed"
        raise SinkqlError(
            "SQ3502",
            f'the file "{name}" with the sink\'s offsets {state}',
            detail=f"It belongs in the metadata folder of table {'.'.join(table.name())}.",
            hint="Restore the file. Do not remove it while the sink writes to the table.",
        )
    return json.loads(data)
