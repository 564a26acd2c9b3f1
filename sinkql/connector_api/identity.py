"""A certificate and its key, as texts → what a connection shows of itself. Python's ssl reads keys from files alone."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from sinkql.storage import files


def load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Have connections of a context show a certificate; raises ssl.SSLError, also for a key that has a password.

    The file is its owner's alone, and goes before this returns.
    """
    with tempfile.TemporaryDirectory(prefix="sinkql-") as folder:
        pair = Path(folder, "pair.pem")
        files.write_atomic(pair, f"{key.rstrip()}\n{certificate}\n".encode(), private=True, sync=False)
        context.load_cert_chain(pair, password="")  # nobody is asked for one
