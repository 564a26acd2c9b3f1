"""A real PgBouncer in front of a test's Postgres server, from Debian's package `pgbouncer`."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from support.patience import PATIENCE_S, Deadline
from support.port import held_ports
from support.postgres import Postgres, as_server

_SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 200
"""


@contextmanager
def pgbouncer(server: Postgres, mode: str, *, size: int) -> Iterator[int]:
    """Run a PgBouncer; yield its port. `size` is the number of connections, `mode` is `session` or `transaction`."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "this test needs PgBouncer: apt-get install pgbouncer"
    with tempfile.TemporaryDirectory(dir=server.folder) as name, held_ports(1) as (port,):
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "pgbouncer.ini").write_text(_SETTINGS.format(server=server.port, port=port, mode=mode, size=size))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([program, folder / "pgbouncer.ini"], stdout=log, stderr=log, **as_server())
        try:
            deadline = Deadline()
            while not _answers(port):
                assert process.poll() is None, (folder / "log").read_text()
                deadline.check("an answer of PgBouncer")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.02)
            yield port
        finally:
            process.kill()
            process.wait(PATIENCE_S)


def _answers(port: int) -> bool:
    """Return whether it accepts connections, also in the mode `statement`, which allows no transactions."""
    with suppress(psycopg.Error):
        psycopg.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres", autocommit=True).close()
        return True
    return False
