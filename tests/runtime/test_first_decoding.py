"""Sinks that start together decode their jobs and manifests concurrently, also for the first time in a process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import sinkql
from sinkql import physical
from support.running import counter, job

_PROGRAM = """
from __future__ import annotations
import sys, threading

sys.setswitchinterval(1e-6)
{given}
done, begin = [], threading.Barrier(6)

def run():
    begin.wait()
    done.append(decoded())

threads = [threading.Thread(target=run) for _ in range(6)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(len(done))
"""
_JOB = """
from sinkql import physical

data = sys.stdin.buffer.read()
decoded = lambda: physical.decode(data)
"""
_TYPES = """
import msgspec
from sinkql import codec as typed

names = [f"Of{number}" for number in range(40)]
for name in names:
    exec(f"class {name}(msgspec.Struct, tag=True): one: Any_ | None; more: list[Any_]")
Any_ = eval(" | ".join(names))

class Whole(msgspec.Struct):
    value: Any_ | None

decoded = lambda: typed.decoder(Whole).decode(b'{"value":{"type":"Of7","one":null,"more":[]}}')
"""
_ELSEWHERE = re.compile(r"msgspec\.(convert\(|(json|msgpack)\.Decoder\(|(json|msgpack)\.decode\(.*\btype=)")
_WITH_ITS_MODULE = re.compile(r"_[A-Z]+ = ")
_OF_TYPES_MADE_THERE = re.compile(
    r"Decoder\((msgspec\.defstruct|list\[decoded_as|self\._(key_row|payload)|type_, float_hook)"
)


@pytest.mark.parametrize("given", [_JOB, _TYPES], ids=["jobs", "types"])
def test_threads_that_decode_the_first_of_a_process_at_once_all_get_it(given: str, tmp_path: Path) -> None:
    program, data = _PROGRAM.format(given=given), physical.encode(job(counter(), tmp_path))
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=False)
        assert (ended.returncode, ended.stdout) == (0, b"6\n"), ended.stderr


def test_types_of_the_program_are_decoded_by_one_module() -> None:
    root = Path(sinkql.__file__).parent
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in root.rglob("*.py")
        if path.name != "codec.py"
        for line in path.read_text().splitlines()
        if _ELSEWHERE.search(line) and not (_WITH_ITS_MODULE.match(line) or _OF_TYPES_MADE_THERE.search(line))
    ]
    assert found == []
