"""Processes that run a function of a test: forks of one that has the imports, which start in a tenth of the time.

They have the folder and the environment of pytest, but none of its threads, locks and connections.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

from support import sink_process

_PRELOADED = (
    sink_process.__name__, "pytest", "sinkql.session", "pyiceberg.io.pyarrow", "pyiceberg.catalog.sql",
    "sqlalchemy.dialects.sqlite",
)  # fmt: skip


@cache
def context() -> ForkServerContext:
    """Return the context of `multiprocessing` for the barriers and pipes of these processes."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(list(_PRELOADED))
    forkserver.ensure_running()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
    return found


def start(target: Callable[..., object], *arguments: Any, **named: Any) -> BaseProcess:
    """Start a process that calls a function of a module; `support.patience.ended` awaits its end."""
    process = context().Process(target=_run, args=(dict(os.environ), target, arguments, named))
    process.start()
    return process


def _run(
    environment: Mapping[str, str], target: Callable[..., object], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    target(*arguments, **named)
