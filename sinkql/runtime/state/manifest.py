"""The runs that are live after a batch ↔ a durable state manifest, which the table's marker names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sinkql.errors import LostStateError, SinkqlError
from sinkql.hash_key import PUBLIC_KEY, HashKey
from sinkql.runtime.state import report
from sinkql.runtime.state.arrangement import files_of
from sinkql.runtime.state.run import Entry
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint, sorted_run
from sinkql.storage import files as storage_files

Manifest = Mapping[str, Any]
"""`format`, `bucketing`, `buckets`; `hashed`: the mark of the secret that rows are hashed with; `arrangements`: name →
bucket (as text) → entries of live runs, oldest first.
"""

FORMAT = 2
_FOLDER = "manifests"
HANDED = "handed"
"""Where the store has rows that are handed to tasks, in files whose names begin with an epoch."""
_OWN = re.compile(r"\.?(\d+)-.+\.(?:arrow|json)")


def empty(*, bucketing: str, buckets: int, hash_key: HashKey = PUBLIC_KEY) -> Manifest:
    """Return the manifest of a sink that has no state yet."""
    known = {"format": FORMAT, "bucketing": bucketing, "buckets": buckets, "hashed": hash_key.fingerprint}
    return {**known, "arrangements": {}}


def next_manifest(manifest: Manifest, new: report.LiveRuns) -> Manifest:
    """Return the manifest with the runs that a batch of a job leaves; what the job does not keep any more is left out.

    SQ3408: the batch ran with another number of buckets than the state has.
    """
    before = manifest["arrangements"]
    for name, buckets in new.items():
        if name in before and set(buckets) != set(before[name]):
            raise SinkqlError(
                "SQ3408",
                f'the batch has arrangement "{name}" in {len(buckets)} buckets, expected {len(before[name])}',
                hint=_HINT,
            )
    return {**manifest, "arrangements": dict(new)}


def note_of(entries: Sequence[Entry], note: str) -> int:
    """Return what an operator noted under this name with the last of a bucket's runs, 0 where it noted nothing."""
    return int(entries[-1].get(note, 0)) if entries else 0


def sum_notes(manifest: Manifest, note: str) -> int:
    """Return the sum of what operators noted under this name."""
    arrangements = manifest["arrangements"].values()
    return sum(note_of(entries, note) for buckets in arrangements for entries in buckets.values())


def min_note(manifest: Manifest, note: str) -> int | None:
    """Return the least of what operators noted under this name; None where none did."""
    arrangements = manifest["arrangements"].values()
    last = [entries[-1] for buckets in arrangements for entries in buckets.values() if entries]
    return min((int(entry[note]) for entry in last if note in entry), default=None)


def save(folder: Path, manifest: Manifest, *, epoch: int) -> str:
    """Write a manifest durably into a sink's state folder and return its name, which says its content's hash."""
    data = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    name = f"{epoch}-{_hash(data)}.json"
    home = folder / _FOLDER
    failpoint.point("state-manifest")
    storage_files.write_atomic(home / name, data)  # a name says its content: what is replaced is the same, or damaged
    failpoint.point("state-manifest-saved")
    return name


def load(folder: Path, name: str) -> Manifest:
    """Return a saved manifest. SQ3402: it is not there; SQ3403: it is torn, or of another version of SinkQL."""
    path = folder / _FOLDER / name
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise LostStateError("SQ3402", f'state manifest "{name}" is missing', detail=str(error), hint=_HINT) from error
    if not name.endswith(f"-{_hash(data)}.json"):
        detail = f"{path}: its content is not what its name says"
        raise LostStateError("SQ3403", f'state manifest "{name}" is damaged', detail=detail, hint=_HINT)
    manifest: dict[str, Any] = json.loads(data)
    if manifest["format"] != FORMAT:
        raise LostStateError(
            "SQ3403",
            f'state manifest "{name}" has format {manifest["format"]}, expected {FORMAT}',
            hint="Run the sink with the version of SinkQL that wrote its state.",
        )
    return manifest


def check(manifest: Manifest, *, bucketing: str, hash_key: HashKey = PUBLIC_KEY) -> int:
    """Return the number of buckets of the state; SQ3408 if its rows were put into buckets in another way.

    SQ3403 if they were hashed with another secret.
    """
    if manifest["hashed"] != hash_key.fingerprint:
        raise LostStateError(
            "SQ3403",
            "the state is hashed with the secret of another catalog",
            hint="Run the sink with the catalog that it was created in.",
        )
    if manifest["bucketing"] != bucketing:
        raise SinkqlError(
            "SQ3408",
            f'the state distributes its rows by "{manifest["bucketing"]}", expected "{bucketing}"',
            hint=_HINT,
        )
    return int(manifest["buckets"])


def file(name: str) -> str:
    """Return where a sink's state folder has a manifest."""
    return f"{_FOLDER}/{name}"


def files(manifest: Manifest) -> dict[str, int]:
    """Return where a sink's state folder has the runs that a manifest names, and how many bytes each has."""
    found: dict[str, int] = {}
    for name, buckets in manifest["arrangements"].items():
        for bucket, entries in buckets.items():
            found |= files_of(name, int(bucket), entries)
    return found


def arrangement_of(folder: str) -> str | None:
    """Return the name of the arrangement that a folder of a sink's state folder has runs of; None where it has none."""
    parts = folder.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "state" else None


def sweep(
    home: StateDirectory,
    keep: Collection[str],
    *,
    epoch: int,
    states: Mapping[str, Collection[str]] | None = None,
) -> int:
    """Delete what the manifests to keep, those of a table's last two markers, do not reach; return how many files.

    Only files named with an epoch up to `epoch` go; call it between batches, and never while a commit's outcome is
    unknown. Of other `states` that are there the arrangements stay that each of them has.
    """
    folder = home.folder
    live = set(map(file, keep))
    home.fetch(dict.fromkeys(live))
    for name in keep:
        live |= files(load(folder, name)).keys()
    kept = states or {}
    others = {file(name): name for name in kept if name not in keep}
    gone = home.fetch(dict.fromkeys(others))
    for path in others.keys() - set(gone):
        live |= {path, *files(_only(load(folder, others[path]), kept[others[path]]))}
    doomed = [*(folder / _FOLDER).glob("*.json*")]
    doomed += (folder / "state").glob("*/b*/*.arrow")
    removed = sorted_run.sweep(doomed, {folder / each for each in live}, epoch_of=_epoch_of, epoch=epoch)
    return removed + home.sweep((f"{_FOLDER}/", "state/"), live, epoch_of=_epoch_of, epoch=epoch)


def _only(manifest: Manifest, names: Collection[str]) -> Manifest:
    kept = {name: buckets for name, buckets in manifest["arrangements"].items() if name in names}
    return {**manifest, "arrangements": kept}


def sweep_staged(home: StateDirectory, *, epoch: int) -> int:
    """Delete what was handed to tasks by processes that were killed; call it between batches. Return how many files."""
    return home.sweep((f"{HANDED}/",), (), epoch_of=_epoch_of, epoch=epoch) if home.remote else 0


_HINT = "Restore the sink's state folder, or drop the sink and create it again, into a new table."


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _epoch_of(name: str) -> int | None:
    found = _OWN.match(name)
    return int(found[1]) if found is not None else None
