"""Sinks that start at once decode their jobs at once: the first ones in a process, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sinkql import physical
from support.running import counter, job

_PROGRAM = """
import sys, threading
from pathlib import Path

sys.setswitchinterval(1e-6)
from sinkql import physical

data, names = Path(sys.argv[1]).read_bytes(), []
begin = threading.Barrier(6)

def decode():
    begin.wait()
    names.append(physical.decode(data).sink)

threads = [threading.Thread(target=decode) for _ in range(6)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(len(names))
"""


def test_threads_that_decode_the_first_job_of_a_process_at_once_all_get_it(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(physical.encode(job(counter(), tmp_path)))
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", _PROGRAM, str(path)], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (0, "6\n"), ended.stderr
