"""Measure how costs grow with size, in sub-commands that each print their figures.

    python -m bench.scale files [--files 10000] [--modes append,upsert,vectors]
    python -m bench.scale backlog [--kind append|aggregate|upsert] [--rows 100000000]
    python -m bench.scale probes [--keys 1,10,100]
    python -m bench.scale keys [--keys 1,10,100] [--rebuild]
    python -m bench.scale sinks [--part statements|idle] [--sinks 100,1000] [--catalog file|server]
    python -m bench.scale executors [--kind aggregate|upsert] [--executors 0 1 2 4]

`--help` after a sub-command describes it. For 100 million rows on two cores, `backlog` and `keys` take ten minutes.
"""

from __future__ import annotations

import argparse

from bench.large import backlog, executors, files, keys, probes, sinks

_PARTS = {"files": files, "backlog": backlog, "probes": probes, "keys": keys, "sinks": sinks, "executors": executors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    for name, module in _PARTS.items():
        part = parts.add_parser(name, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add(part)
        part.set_defaults(run=module.run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
