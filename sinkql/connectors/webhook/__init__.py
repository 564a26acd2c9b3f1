"""Receive rows as HTTP requests.

* `options`: Define the options of sources, and convert planned options to typed ones.
* `plan`: Plan CREATE SOURCE … FROM WEBHOOK.
* `check_plan`: Plan CHECK (…) as a typed tree.
* `doctor`: Check whether a source can listen on its port.
* `stream`: Stream the accepted requests of a source to its capture.
* `server`: Listen on ports, and route requests to endpoints.
* `acceptor`: Accept the connections of a port.
* `port_connections`: Count the connections of a port, and choose which to close.
* `http`: Parse the requests of a connection, and write the answers.
* `received_request`: Hold the request that a connection receives.
* `endpoint`: Check requests, make them durable, and answer them; refuse those that fail the CHECK.
* `check_eval`: Evaluate a CHECK, with its signature, for a request.
* `request`: Convert requests to rows.
* `request_log`: Store accepted requests until the capture log has them.
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


_ABOUT = """Rows arrive as HTTP requests, `POST /api/webhook/database/schema/source`, while a sink of the source runs. A
request is answered with status 200 once it is durable. A sender without an answer should send it again. Without
`CHECK`, every client that reaches the port can send rows."""

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
            open_shared=_listening,
            examine=_examine,
            about=_ABOUT,
        ),
    ),
)
