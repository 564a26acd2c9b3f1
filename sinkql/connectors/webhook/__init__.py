"""Webhooks: sources whose rows others send, by HTTP requests.

* `options`, `request`: the words of sources; how a request becomes rows, as data.
* `plan`, `check`: a statement → what a source reads, who is let in, and where it listens.
* `stream`: a source, as a capture asks for it. `server`, `acceptor`, `port_connections`, `http`: ports and
  connections → requests.
* `endpoint`: requests are let in, made durable together, and answered; `check_eval`: whether one passes CHECK;
  `request`: its rows.
* `request_log`: what was answered, until the log has it.
* `doctor`: what keeps a source from listening.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from sinkql import logical
from sinkql.capture import open_reader
from sinkql.connector_api.cdc import CapturedSource, OpenStream, Reveal, Stream
from sinkql.connector_api.health_check import HealthCheck
from sinkql.connector_api.planning import Connector, OutsideAccess, SourceKind
from sinkql.connectors.webhook.options import NoOptions, SourceOptions
from sinkql.connectors.webhook.plan import plan


def _open_stream(source: CapturedSource, secret: Reveal) -> Stream:
    from sinkql.connectors.webhook.stream import open_stream  # h11 and asyncio, only in a capture

    return open_stream(source, secret)


def _listening() -> AbstractContextManager[OpenStream]:
    from sinkql.connectors.webhook.stream import listening

    return listening()


def _examine(source: logical.Source, access: OutsideAccess) -> Iterator[HealthCheck]:
    from sinkql.connectors.webhook.doctor import examine

    return examine(source, access)


_ABOUT = """Rows that others send as HTTP requests, `POST /api/webhook/database/schema/source`, while a sink of the
source runs. A request is answered with status 200 once it is durable; a sender that got no answer sends it again.
Without `CHECK` anybody who reaches the port may send rows."""

connector = Connector(
    "webhook",
    sources=(
        SourceKind(
            "WEBHOOK",
            plan,
            open_reader,
            NoOptions,
            SourceOptions,
            stream=_open_stream,
            together=_listening,
            examine=_examine,
            about=_ABOUT,
        ),
    ),
)
