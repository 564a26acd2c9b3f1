"""A store in a folder returns the present values, although it reads only files that were replaced."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from sinkql.storage.key_value import FolderStore

_OLD = 1_700_000_000


def _overwrite(path: Path, value: bytes, at: float) -> None:
    """Change a file in place, and set its time."""
    with path.open("r+b") as file:
        file.write(value)
    os.utime(path, (at, at))


@pytest.mark.parametrize("seed", range(5))
def test_all_values_are_the_last_ones(tmp_path: Path, seed: int) -> None:
    store, other, rng = FolderStore(tmp_path), FolderStore(tmp_path), random.Random(seed)
    values: dict[str, bytes] = {}
    for number in range(100):
        name = rng.choice("abcd")
        if rng.random() < 0.2:
            rng.choice((store, other)).remove(f"at/{name}")
            values.pop(name, None)
        else:
            values[name] = str(number + 100).encode()
            rng.choice((store, other)).write(f"at/{name}", values[name], sync=False)
            if rng.random() < 0.5:
                at = _OLD + rng.randrange(2)
                os.utime(tmp_path / "at" / f"{name}.json", (at, at))
        if rng.random() < 0.7:
            assert dict(store.all("at")) == dict(sorted(values.items()))
            assert store.names("at") == sorted(values)


def test_a_file_that_stays_is_read_once(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.write("at/a", b"first", sync=False)
    path = tmp_path / "at" / "a.json"
    os.utime(path, (_OLD, _OLD))
    assert dict(store.all("at")) == {"a": b"first"}
    _overwrite(path, b"other", _OLD)
    assert dict(store.all("at")) == {"a": b"first"}
    assert dict(FolderStore(tmp_path).all("at")) == {"a": b"other"}
    _overwrite(path, b"third", _OLD + 1)
    assert dict(store.all("at")) == {"a": b"third"}


def test_a_file_is_read_again_as_long_as_a_later_version_may_have_its_time(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.write("at/a", b"first", sync=False)
    path = tmp_path / "at" / "a.json"
    at = path.stat().st_mtime
    assert dict(store.all("at")) == {"a": b"first"}
    _overwrite(path, b"other", at)
    os.utime(path, (at + 3600, at + 3600))
    assert dict(store.all("at")) == {"a": b"other"}
    _overwrite(path, b"third", at + 3600)
    assert dict(store.all("at")) == {"a": b"third"}


def test_hidden_and_other_files_are_no_values(tmp_path: Path) -> None:
    (tmp_path / "at").mkdir()
    for name in (".a.json", "b.tmp", "c"):
        (tmp_path / "at" / name).write_bytes(b"0")
    store = FolderStore(tmp_path)
    assert (store.names("at"), dict(store.all("at")), store.names("none"), dict(store.all("none"))) == ([], {}, [], {})
