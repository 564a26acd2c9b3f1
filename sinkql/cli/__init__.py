"""The command line, a thin face over `sinkql.session`.

* `main`: arguments to a command, its errors to output and an exit code.
* `command`: the commands.
* `context`: the session of the catalog that the command line names, and the names in it for completion.
* `context`: a path and variables to a script's text.
* `execute`: run a script's statements and its sinks.
* `progress`: what running sinks tell to a live table on a terminal, plain lines elsewhere.
* `execute`: the quickstart example.
* `output`: results, notices and errors to text or JSON.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and exit: 0 ok, 1 SQL, 3 job, 4 environment, 5 conflict, 64 usage, 130/143 signals."""
    from sinkql.cli.main import run_command

    code = run_command(sys.argv[1:])
    gc.freeze()  # or Python looks through all that was imported once more, and for cycles, before it ends
    sys.exit(code)
