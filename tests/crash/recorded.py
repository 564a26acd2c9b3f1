"""Run the sinks of pipelines and record each acknowledged commit in the file `acknowledged`.

    python -m crash.recorded KIND FOLDER [KIND FOLDER …]

The test traces this process and simulates a power failure at each moment; the file shows which commits must survive.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import pytest

from crash.child import drain, open_loop
from crash.pipeline import Pipeline
from support.eager import compact_eagerly, expire_hastily


def main(kind: str, folder: Path) -> None:
    """Run one pipeline to its end with all maintenance enabled."""
    loop = open_loop(Pipeline(folder, kind, eager=True, hasty=True))
    file = os.open(folder / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    numbers = itertools.count(1)

    def acknowledge() -> None:
        os.write(file, b"%d\n" % next(numbers))

    loop.start(epoch=1, once=True)
    drain(loop, 1, acknowledge)


if __name__ == "__main__":
    patch = pytest.MonkeyPatch()  # affects only this process
    compact_eagerly(patch)
    expire_hastily(patch)
    for kind, folder in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        main(kind, Path(folder))
