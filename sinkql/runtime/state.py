"""The runs that are live after a batch ↔ a durable state manifest, which the table's marker names."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from sinkql import faults
from sinkql.errors import SinkqlError
from sinkql.runtime import report
from sinkql.runtime.arrangement import bucket_folder
from sinkql.runtime.run import make_folder, sync_folder

Manifest = Mapping[str, Any]
"""`format`, `bucketing`, `buckets`; `arrangements`: name → bucket (as text) → entries of live runs, oldest first."""

FORMAT = 1
_FOLDER = "manifests"
_OWN = re.compile(r"(\d+)-.+\.(?:arrow|json)")


def empty(*, bucketing: str, buckets: int) -> Manifest:
    """Return the manifest of a sink that has no state yet."""
    return {"format": FORMAT, "bucketing": bucketing, "buckets": buckets, "arrangements": {}}


def after(manifest: Manifest, runs: report.Runs) -> Manifest:
    """Return the manifest with a batch's new runs in place of those of the same arrangements.

    SQ3408: the batch ran with another number of buckets than the state has.
    """
    before = manifest["arrangements"]
    for name, buckets in runs.items():
        if name in before and set(buckets) != set(before[name]):
            raise SinkqlError(
                "SQ3408",
                f'the batch has arrangement "{name}" in {len(buckets)} buckets, expected {len(before[name])}',
                hint=_HINT,
            )
    return {**manifest, "arrangements": {**before, **runs}}


def save(folder: Path, manifest: Manifest, *, epoch: int) -> str:
    """Write a manifest durably into a sink's state folder and return its name, which says its content's hash."""
    data = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    name = f"{epoch}-{_hash(data)}.json"
    home = folder / _FOLDER
    make_folder(home)
    faults.point("state-manifest")
    if not (home / name).exists() or (home / name).read_bytes() != data:
        # a name says its content: what is replaced is the same, or the torn rest of it
        draft = home / f"{name}.{secrets.token_hex(8)}"
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(home / name)
    sync_folder(home)
    faults.point("state-manifest-saved")
    return name


def load(folder: Path, name: str) -> Manifest:
    """Return a saved manifest. SQ3402: it is not there; SQ3403: it is torn, or of another version of SinkQL."""
    path = folder / _FOLDER / name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SinkqlError("SQ3402", f'state manifest "{name}" is missing', detail=str(error), hint=_HINT) from error
    if not name.endswith(f"-{_hash(data)}.json"):
        detail = f"{path}: its content is not what its name says"
        raise SinkqlError("SQ3403", f'state manifest "{name}" is damaged', detail=detail, hint=_HINT)
    manifest: dict[str, Any] = json.loads(data)
    if manifest["format"] != FORMAT:
        raise SinkqlError(
            "SQ3403",
            f'state manifest "{name}" has format {manifest["format"]}, expected {FORMAT}',
            hint="Run the sink with the version of SinkQL that wrote its state.",
        )
    return manifest


def check(manifest: Manifest, *, bucketing: str) -> int:
    """Return the number of buckets of the state; SQ3408 if its rows were put into buckets in another way."""
    if manifest["bucketing"] != bucketing:
        raise SinkqlError(
            "SQ3408",
            f'the state has its rows in buckets by "{manifest["bucketing"]}", expected "{bucketing}"',
            hint=_HINT,
        )
    return int(manifest["buckets"])


def sweep(folder: Path, keep: Collection[str], *, epoch: int) -> int:
    """Delete what the manifests to keep, those of a table's last two markers, do not reach; return how many files.

    Only files named with an epoch up to `epoch` go; call it between batches, and never while a commit's outcome is
    unknown.
    """
    live = {folder / _FOLDER / name for name in keep}
    for name in keep:
        live |= _reached(folder, load(folder, name))
    doomed = [*(folder / _FOLDER).glob("*.json*"), *(folder / report.FOLDER).glob("*.json")]
    doomed += (folder / "state").glob("*/b*/*.arrow")
    removed = 0
    for path in doomed:
        if path not in live and _mine(path.name, epoch):
            faults.point("sweep")
            path.unlink(missing_ok=True)
            removed += 1
    return removed


_HINT = "Restore the sink's state folder, or drop the sink and create it again, into a new table."


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _reached(folder: Path, manifest: Manifest) -> set[Path]:
    found = set()
    for name, buckets in manifest["arrangements"].items():
        for bucket, entries in buckets.items():
            found |= {bucket_folder(folder, name, int(bucket)) / entry["file"] for entry in entries}
    return found


def _mine(name: str, epoch: int) -> bool:
    found = _OWN.match(name)
    return found is not None and int(found[1]) <= epoch
