"""Check the port of a webhook: whether the source can listen there, and which requests would pass."""

from __future__ import annotations

import errno
import http.client
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

from sinkql import logical
from sinkql.connector_api.health_check import HealthCheck
from sinkql.connector_api.identity import load_certificate
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.webhook.options import Identity, PlannedOptions, planned_options
from sinkql.errors import SinkqlError

_TIMEOUT_S = 5.0


def examine(source: logical.Source, access: OutsideAccess) -> Iterator[HealthCheck]:
    """Yield the checks of a source; raise the error of a secret that cannot be read."""
    options = planned_options(source.options["tuning"]["options"])
    yield _check_port(options)
    if options.ssl is not None:
        yield _check_certificate(options.ssl, access)
    if options.check is None and not ipaddress.ip_address(options.address).is_loopback:
        yield HealthCheck(
            "check",
            "warning",
            "every request passes: the source has no CHECK",
            "Create the source again with CHECK (WITH (HEADERS, SECRET name) "
            "constant_time_eq(headers->'authorization', name)).",
        )


def _check_port(options: PlannedOptions) -> HealthCheck:
    address, port = options.address, options.port
    name = f"port {port}"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            probe.listen(1)
        return HealthCheck(name, "ok", f"it is free; requests go to {options.url} while a sink of the source runs")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _check_listener(name, options)
        fix = "Run ALTER SOURCE … SET (PORT = 6876), or grant SinkQL the privilege that ports below 1024 require."
        if error.errno == errno.EADDRNOTAVAIL:
            fix = "Run ALTER SOURCE … SET (ADDRESS = '0.0.0.0'), or an address that this machine has."
        return HealthCheck(name, "wrong", f"cannot listen on {address}: {(error.strerror or str(error)).lower()}", fix)


def _check_listener(name: str, options: PlannedOptions) -> HealthCheck:
    """Ask the process that listens there: SinkQL answers GET with 405 if it captures the source."""
    try:
        status = _status(options)
    except (OSError, http.client.HTTPException):
        status = None
    if status == http.HTTPStatus.METHOD_NOT_ALLOWED:
        return HealthCheck(name, "ok", f"requests are accepted at {options.url}")
    return HealthCheck(
        name,
        "warning",
        "another process listens there, and does not accept requests for the source",
        "If it is not SinkQL, stop it, or run ALTER SOURCE … SET (PORT = 6877).",
    )


def _status(options: PlannedOptions) -> int:
    """Return the status of a request that changes nothing."""
    url = urlsplit(options.url)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(options.address, options.address)
    connection = http.client.HTTPConnection(host, options.port, timeout=_TIMEOUT_S)
    if options.ssl is not None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = (
            False,
            ssl.CERT_NONE,
        )  # no secret is sent, and the answer is not trusted
        connection = http.client.HTTPSConnection(host, options.port, timeout=_TIMEOUT_S, context=context)
    with closing(connection):
        connection.request("GET", url.path)
        return connection.getresponse().status


def _check_certificate(identity: Identity, access: OutsideAccess) -> HealthCheck:
    try:
        certificate, key = (reveal(part, access.secret) for part in (identity.certificate, identity.key))
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
    except ssl.SSLError as error:
        return HealthCheck(
            "certificate",
            "wrong",
            f"the certificate or the key is unusable: {error.reason or error}",
            "SSL CERTIFICATE and SSL KEY are PEM texts of one pair, the key without a password.",
        )
    except SinkqlError as error:
        return HealthCheck("certificate", "wrong", error.message, error.hint)
    return HealthCheck("certificate", "ok", "it belongs to the key")
