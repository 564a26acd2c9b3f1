"""Load a client certificate and its key, as texts, into an SSL context. Python's ssl reads keys only from files."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from sinkql.storage import files


def load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate into a context; raises ssl.SSLError, also for a key with a password.

    Only the owner can read the temporary file, which is deleted before this returns.
    """
    with tempfile.TemporaryDirectory(prefix="sinkql-") as folder:
        pair = Path(folder, "pair.pem")
        files.write_atomic(pair, f"{key.rstrip()}\n{certificate}\n".encode(), private=True, sync=False)
        context.load_cert_chain(pair, password="")  # never ask for one on the terminal
