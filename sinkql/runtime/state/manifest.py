"""The state manifest: the live runs after a batch, in a durable file that the table's commit names."""

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
bucket (as text) → entries of live runs, oldest first."""

FORMAT = 2
_FOLDER = "manifests"
HANDED = "handed"
"""The store's folder for rows passed to tasks, in files with an epoch in their names."""
_OWN = re.compile(r"\.?(\d+)-.+\.(?:arrow|json)")


def empty(*, bucketing: str, buckets: int, hash_key: HashKey = PUBLIC_KEY) -> Manifest:
    """Return the manifest of a sink without state."""
    header = {"format": FORMAT, "bucketing": bucketing, "buckets": buckets, "hashed": hash_key.fingerprint}
    return {**header, "arrangements": {}}


def next_manifest(manifest: Manifest, new: report.LiveRuns) -> Manifest:
    """Return the manifest with the runs after a batch of a job; arrangements that the job no longer has are omitted.

    Raises SQ3408 if the batch ran with another number of buckets than the state has.
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
    """Return the value of an operator's note in the last of a bucket's runs, 0 without one."""
    return int(entries[-1].get(note, 0)) if entries else 0


def sum_notes(manifest: Manifest, note: str) -> int:
    """Return the sum of the operators' notes with this name."""
    arrangements = manifest["arrangements"].values()
    return sum(note_of(entries, note) for buckets in arrangements for entries in buckets.values())


def min_note(manifest: Manifest, note: str) -> int | None:
    """Return the minimum of the operators' notes with this name; None without one."""
    arrangements = manifest["arrangements"].values()
    last = [entries[-1] for buckets in arrangements for entries in buckets.values() if entries]
    return min((int(entry[note]) for entry in last if note in entry), default=None)


def save(folder: Path, manifest: Manifest, *, epoch: int) -> str:
    """Write a manifest durably into a sink's state folder and return its name, which contains its content's hash."""
    data = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    name = f"{epoch}-{_hash(data)}.json"
    home = folder / _FOLDER
    failpoint.point("state-manifest")
    storage_files.write_atomic(home / name, data)  # a file of this name has the same content, or is damaged
    failpoint.point("state-manifest-saved")
    return name


def load(folder: Path, name: str) -> Manifest:
    """Return a saved manifest. Raises SQ3402 if it is missing, SQ3403 if it is damaged or has another format."""
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
    """Return the number of buckets of the state; raises SQ3408 if its rows were put into buckets by another rule.

    Raises SQ3403 if they were hashed with another secret.
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
    """Return the path of a manifest in a sink's state folder."""
    return f"{_FOLDER}/{name}"


def files(manifest: Manifest) -> dict[str, int]:
    """Return the files of the runs in a manifest, with their sizes in bytes, in a sink's state folder."""
    sizes: dict[str, int] = {}
    for name, buckets in manifest["arrangements"].items():
        for bucket, entries in buckets.items():
            sizes |= files_of(name, int(bucket), entries)
    return sizes


def arrangement_of(folder: str) -> str | None:
    """Return the name of the arrangement of a folder inside a state folder; None if it has no runs."""
    parts = folder.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "state" else None


def sweep(
    home: StateDirectory,
    keep: Collection[str],
    *,
    epoch: int,
    states: Mapping[str, Collection[str]] | None = None,
) -> int:
    """Delete files that no manifest in `keep` names (of the table's last two commits); return their number.

    Only files named with an epoch up to `epoch` are deleted. Call it between batches, and never while a commit's
    outcome is unknown. `states` are other manifests, each with the arrangements to retain if the manifest
    still exists.
    """
    folder = home.folder
    live = set(map(file, keep))
    home.fetch(dict.fromkeys(live))
    for name in keep:
        live |= files(load(folder, name)).keys()
    by_manifest = states or {}
    others = {file(name): name for name in by_manifest if name not in keep}
    missing = home.fetch(dict.fromkeys(others))
    for path in others.keys() - set(missing):
        live |= {path, *files(_only(load(folder, others[path]), by_manifest[others[path]]))}
    doomed = [*(folder / _FOLDER).glob("*.json*")]
    doomed += (folder / "state").glob("*/b*/*.arrow")
    removed = sorted_run.sweep(doomed, {folder / live_file for live_file in live}, epoch_of=_epoch_of, epoch=epoch)
    return removed + home.sweep((f"{_FOLDER}/", "state/"), live, epoch_of=_epoch_of, epoch=epoch)


def _only(manifest: Manifest, names: Collection[str]) -> Manifest:
    arrangements = {name: buckets for name, buckets in manifest["arrangements"].items() if name in names}
    return {**manifest, "arrangements": arrangements}


def sweep_staged(home: StateDirectory, *, epoch: int) -> int:
    """Delete files passed to tasks by killed processes; call it between batches. Return their number."""
    return home.sweep((f"{HANDED}/",), (), epoch_of=_epoch_of, epoch=epoch) if home.remote else 0


_HINT = "Restore the sink's state folder, or drop the sink and create it again with a new table."


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _epoch_of(name: str) -> int | None:
    match = _OWN.match(name)
    return int(match[1]) if match is not None else None
