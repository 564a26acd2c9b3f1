"""The command line, a thin face over `sinkql.session`.

* `command`: the commands and their options.
* `opening`: the session of a command's catalog.
* `catalog`, `preview`, `secret`, `shell`: commands of several parts.
* `completion`: half a command line → its completions.
* `running`: run sinks, and stop them on the first Ctrl-C.
* `fmt`: scripts in their canonical form.
* `live`: progress events → live lines on a terminal, plain lines elsewhere.
* `output`: results and errors → text or JSON.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit: 0 ok, 1 SQL, 3 job, 4 environment, 5 conflict, 64 usage, 130/143 signals."""
    from sinkql.cli.command import run

    sys.exit(run(sys.argv[1:]))
