"""A worker module of Spark → a process that connects before it imports anything.

Spark gives the process of a streaming source, and a worker that no daemon forks, ten seconds from start to first word;
on a loaded machine the imports alone take longer. It stands for `python -m MODULE`, and is run by its path.
"""

import importlib
import os
import socket
import struct
import sys

_BUFFER = 65536


def main(module: str) -> None:
    """Connect as Spark expects it, then run the module."""
    port, secret = int(os.environ["PYTHON_WORKER_FACTORY_PORT"]), os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((host, port))
    stream = connection.makefile("rwb", _BUFFER)
    stream.write(struct.pack("!i", len(secret)) + secret)
    stream.flush()
    (length,) = struct.unpack("!i", stream.read(4))
    if stream.read(length) != b"ok":
        raise ConnectionRefusedError("Spark did not accept the process of its source")
    stream.write(struct.pack("!i", os.getpid()))
    stream.flush()

    try:
        importlib.import_module(module).main(stream, stream)
    finally:
        stream.close()


if __name__ == "__main__":
    main(sys.argv[1])
