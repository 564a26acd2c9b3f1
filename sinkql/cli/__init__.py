"""The command line, a thin layer over `sinkql.session`.

* `main`: Run the command that the arguments name, and turn its errors into output and an exit code.
* `context`: Open the catalog and the scripts that the command line names.
* `command`: The commands.
* `execute`: Run a script's statements and its sinks, or the quickstart example.
* `progress`: Show the events of running sinks.
* `watch`: Show a changing text.
* `output`: Print results, notices and errors as text or JSON.
"""

from __future__ import annotations

import gc
import sys

_ALLOCATIONS = 50_000
"""New objects before a garbage collection. Python's own number, 700, costs a fifth of the imports of a sink."""


def main() -> None:
    """Run the command line and exit: 0 ok, 1 SQL, 3 job, 4 environment, 5 conflict, 64 usage, 130/143 signals."""
    gc.set_threshold(_ALLOCATIONS)
    from sinkql.cli.main import run_command

    code = run_command(sys.argv[1:])
    gc.freeze()  # otherwise the exit collects garbage among everything that was imported
    sys.exit(code)
