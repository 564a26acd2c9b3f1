"""Capture the sources of a catalog until standard input ends: python -m webhook.child FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from sinkql.session.session import Session
from webhook.sending import capturing


def main(folder: Path) -> None:
    with Session(folder / "catalog.db") as session, capturing(session):
        print("captures", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
