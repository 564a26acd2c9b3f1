"""The port of a webhook → whether the source can listen there, and whether others would get in."""

from __future__ import annotations

import errno
import http.client
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from sinkql import logical
from sinkql.connector_api.health_check import HealthCheck
from sinkql.connector_api.identity import load_certificate
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.errors import SinkqlError

_PATIENCE_S = 5.0


def examine(source: logical.Source, access: OutsideAccess) -> Iterator[HealthCheck]:
    """Yield what is found; raises what a secret raises that cannot be read."""
    options: dict[str, Any] = source.options["tuning"]["options"]
    yield _port(options)
    if options["ssl"] is not None:
        yield _certificate(options, access)
    if options["check"] is None and not ipaddress.ip_address(options["address"]).is_loopback:
        yield HealthCheck(
            "check",
            "warning",
            "all requests are let in, from whoever reaches the port",
            "Create the source again with CHECK (WITH (HEADERS, SECRET name) "
            "constant_time_eq(headers->'authorization', name)).",
        )


def _port(options: dict[str, Any]) -> HealthCheck:
    address, port = options["address"], options["port"]
    name = f"port {port}"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            probe.listen(1)
        return HealthCheck(name, "ok", f"it is free; requests go to {options['url']} while a sink of the source runs")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _used(name, options)
        fix = "Run ALTER SOURCE … SET (PORT = 6876), or let SinkQL use it: ports below 1024 need a privilege."
        if error.errno == errno.EADDRNOTAVAIL:
            fix = "Run ALTER SOURCE … SET (ADDRESS = '0.0.0.0'), or an address that this machine has."
        return HealthCheck(
            name, "wrong", f"{address} cannot be listened on: {(error.strerror or str(error)).lower()}", fix
        )


def _used(name: str, options: dict[str, Any]) -> HealthCheck:
    """Ask whoever listens there: SinkQL takes requests with POST alone where the source is captured."""
    try:
        status = _asked(options)
    except (OSError, http.client.HTTPException):
        status = None
    if status == http.HTTPStatus.METHOD_NOT_ALLOWED:
        return HealthCheck(name, "ok", f"requests are taken at {options['url']}")
    return HealthCheck(
        name,
        "warning",
        "another process listens there, and it does not take requests for the source",
        "If it is no sinkql, stop it, or run ALTER SOURCE … SET (PORT = 6877).",
    )


def _asked(options: dict[str, Any]) -> int:
    """Return the status of a request that changes nothing."""
    url = urlsplit(options["url"])
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(options["address"], options["address"])
    connection = http.client.HTTPConnection(host, options["port"], timeout=_PATIENCE_S)
    if options["ssl"] is not None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is said to it, or believed
        connection = http.client.HTTPSConnection(host, options["port"], timeout=_PATIENCE_S, context=context)
    with closing(connection):
        connection.request("GET", url.path)
        return connection.getresponse().status


def _certificate(options: dict[str, Any], access: OutsideAccess) -> HealthCheck:
    try:
        certificate, key = (reveal(options["ssl"][each], access.secret) for each in ("certificate", "key"))
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
    except ssl.SSLError as error:
        return HealthCheck(
            "certificate",
            "wrong",
            f"the certificate or the key cannot be used: {error.reason or error}",
            "SSL CERTIFICATE and SSL KEY are PEM texts of one pair, the key without a password.",
        )
    except SinkqlError as error:
        return HealthCheck("certificate", "wrong", error.message, error.hint)
    return HealthCheck("certificate", "ok", "it belongs to the key")
