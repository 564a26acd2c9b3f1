"""Start the servers that a page's setups name, and replace the page's addresses by theirs.

`<!-- setup: kafka -->` starts a broker; further lines of the comment define its content before the first block:

* `kafka`: one message per line, `topic: value` or `topic key: value`; a topic without messages is alone on its line.
  Topics that sources of the page read are created anyway.
* `postgres`, `mariadb`: SQL that runs in the first database that the page names.
* `registry`: one schema per line, `subject: schema`.
* `env`: one variable per line, `NAME=value`. Variables that secrets of the page name have a value anyway.
* `sinkql`: statements that run before the first block.
* `files`: `--- path` before the content of each file.
* `s3`: `http://localhost:8333` has the bucket `data`; the user `admin` has the key `secretsecret`; the REST catalog
  `http://localhost:8181` has the warehouse `lake`.
* `demo`: the quickstart example, in the working folder.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from docs.page_text import ROOT, Page
from sinkql.connectors.kafka import admin, consumer
from support.kafka import Kafka
from support.patience import PATIENCE_S

SETUPS = ("kafka", "postgres", "mariadb", "s3", "registry", "demo", "env", "sinkql", "files")
_TOPIC = re.compile(r"FROM KAFKA CONNECTION\b[^;]*?\bTOPIC *=? *'([^']+)'")
_VARIABLE = re.compile(r"\benv_var\('(\w+)'\)")
_FOLDER = re.compile(r"FROM FILES \([^;]*?\bPATH *=? *'([\w-]+(?:/[\w-]+)*)'")


@dataclass
class Servers:
    """The servers of a page. `names` maps addresses on pages to actual ones; `sql` runs statements on a server."""

    names: dict[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    """The ports of databases, by the type of their connections."""
    sql: dict[str, Callable[[str], None]] = field(default_factory=dict)

    def here(self, text: str) -> str:
        """Return the text of a page with the addresses of these servers."""
        for name, address in self.names.items():
            text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\d)", address, text)
        for kind, port in self.ports.items():
            connection = rf"(TO {kind}\b[^;]*?\bHOST *=? *)'localhost'(?![^;]*\bPORT\b)"
            text = re.sub(connection, rf"\1'127.0.0.1', PORT {port}", text)
        return text

    def there(self, text: str) -> str:
        """Return printed text with the addresses that pages use."""
        for port in self.ports.values():
            text = text.replace(f"'127.0.0.1', PORT {port}", "'localhost'")
        for name, address in sorted(self.names.items(), key=lambda pair: -len(pair[1])):
            text = text.replace(address, name)
        return text


@contextmanager
def servers(page: Page, broker: Callable[[], Kafka]) -> Iterator[Servers]:
    """Start the servers of a page until the block ends; write files to the working folder.

    A broker starts slowly, so `broker` starts one for all pages; each page's topics are deleted after it.
    """
    found = Servers()
    sql = "\n".join(block.text for block in page.blocks if block.language == "sql")
    for folder in _FOLDER.findall(sql):
        Path(folder).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        variables = stack.enter_context(pytest.MonkeyPatch.context())
        for name in _VARIABLE.findall(sql):
            variables.setenv(name, "secretsecret")
        for name, text in page.setups.items():
            match name:
                case "kafka":
                    stack.enter_context(_kafka(found, broker(), text, _TOPIC.findall(sql)))
                case "postgres":
                    stack.enter_context(_postgres(found, text, sql))
                case "mariadb":
                    stack.enter_context(_mariadb(found, text, sql))
                case "s3":
                    stack.enter_context(_s3(found))
                case "registry":
                    stack.enter_context(_registry(found, text))
                case "demo":
                    shutil.copytree(ROOT / "examples" / "quickstart", ".", dirs_exist_ok=True)
                case "env":
                    for line in text.splitlines():
                        variable, _, value = line.partition("=")
                        variables.setenv(variable.strip(), value)
                case "sinkql":
                    pass  # `Runner` runs it in its session
                case "files":
                    _write_files(text)
                case _:
                    raise AssertionError(f"{page.path}: there is no setup {name}; known: {', '.join(SETUPS)}")
        yield found


@contextmanager
def _kafka(found: Servers, broker: Kafka, text: str, topics: list[str]) -> Iterator[None]:
    found.names["localhost:9092"] = broker.address
    messages = [line.partition(": ") for line in text.splitlines() if line.strip()]
    for topic in dict.fromkeys([*topics, *(head.split()[0].rstrip(":") for head, _, _ in messages)]):
        broker.topic(name=topic)
    for head, colon, value in messages:
        topic, _, key = head.partition(" ")
        if colon:
            broker.send(topic, value, key=key or None)
    try:
        yield
    finally:
        for clients in (admin._admin, consumer._consumers):  # these cache the topics that are deleted
            clients.cache_clear()
        for topic in broker.admin.list_topics(timeout=PATIENCE_S).topics:
            if not topic.startswith("__"):
                broker.delete(topic)


@contextmanager
def _postgres(found: Servers, text: str, sql: str) -> Iterator[None]:
    from support.postgres import postgres

    with postgres() as server:
        found.names |= {"localhost:5432": f"127.0.0.1:{server.port}", "5432": str(server.port)}
        found.ports["POSTGRES"] = server.port
        database = _database(sql, "POSTGRES")
        if database != "postgres":
            server.execute(f'CREATE DATABASE "{database}"')

        def run(statements: str) -> None:
            server.execute(statements, database)

        found.sql["postgres"] = run
        if text.strip():
            run(text)
        yield


@contextmanager
def _mariadb(found: Servers, text: str, sql: str) -> Iterator[None]:
    from support.mariadb import mariadb

    with tempfile.TemporaryDirectory(prefix="mariadb-") as folder, mariadb(Path(folder)) as server:
        found.names |= {"localhost:3306": f"127.0.0.1:{server.port}", "3306": str(server.port)}
        found.ports["MYSQL"] = server.port
        database = _database(sql, "MYSQL")
        server.run(f"CREATE DATABASE `{database}`")

        def run(statements: str) -> None:
            each = [statement.strip() for statement in re.split(r";[ \t]*(?:\n|$)", statements)]
            server.run(f"USE `{database}`", *(statement for statement in each if statement))

        found.sql["mariadb"] = run
        if text.strip():
            run(text)
        yield


def _database(sql: str, kind: str) -> str:
    """Return the first database that a page's connections name."""
    match = re.search(rf"TO {kind}\b[^;]*?\bDATABASE *=? *'?([\w-]+)", sql)
    return match[1] if match is not None else "shop"


@contextmanager
def _s3(found: Servers) -> Iterator[None]:
    from support.seaweed import seaweed

    with tempfile.TemporaryDirectory(prefix="s3-") as folder, seaweed(Path(folder)) as server:
        found.names |= {
            "localhost:8333": f"127.0.0.1:{server.s3}",
            "localhost:8181": f"127.0.0.1:{server.rest}",
        }
        yield


@contextmanager
def _registry(found: Servers, text: str) -> Iterator[None]:
    from support.registry import stub_registry

    with stub_registry() as registry:
        found.names["http://localhost:8081"] = registry.url
        for line in text.splitlines():
            subject, colon, schema = line.partition(": ")
            if colon:
                kind = "AVRO" if schema.startswith(("{", "[", '"')) else "PROTOBUF"
                registry.register(subject.strip(), schema.replace("\\n", "\n"), kind)
        yield


def _write_files(text: str) -> None:
    for part in re.split(r"^--- ", text, flags=re.MULTILINE)[1:]:
        name, _, content = part.partition("\n")
        path = Path(name.strip())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.rstrip("\n") + "\n")
