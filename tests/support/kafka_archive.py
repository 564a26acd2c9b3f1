"""An archive of the classes that a Kafka broker loads when it starts, which costs a third less CPU with it.

`make kafka` runs this module, which makes the archive beside the jars. Java ignores an archive of another Java or of
other jars.
"""

from __future__ import annotations

import hashlib
import signal
from functools import cache
from pathlib import Path

from support.java import java

JARS = Path(__file__).parents[2].joinpath(".kafka", "libs").resolve()


@cache
def archive() -> tuple[str, ...]:
    """Return Java's option for the archive; none if it is missing."""
    return (f"-XX:SharedArchiveFile={_path()}",) if _path().exists() else ()


def _path() -> Path:
    home = Path(java()).resolve().parents[1]
    facts = [f"{path} {path.stat().st_mtime_ns}" for path in (home / "lib" / "modules", JARS)]
    return JARS.with_name(f"classes-{hashlib.sha256(' '.join(facts).encode()).hexdigest()[:16]}.jsa")


def main() -> None:
    from support.kafka import kafka  # it imports this module

    if not JARS.is_dir() or _path().exists():
        return
    for old in JARS.parent.glob("classes-*.jsa"):
        old.unlink()
    draft = _path().with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with kafka(options=[f"-XX:ArchiveClassesAtExit={draft}"]) as broker:
        topic = broker.topic(2)
        producer = broker.producer(transactional_id="rehearsal")
        producer.begin_transaction()
        producer.produce(topic, b"message")
        producer.commit_transaction()
        broker.committed(topic, broker.ends(topic))
        broker.stop(signal.SIGTERM)
    draft.rename(_path())


if __name__ == "__main__":
    main()
