"""boto3, for whoever signs requests with keys of AWS: its loggers → silence below INFO; the error without it."""

from __future__ import annotations

import logging

from sinkql.errors import SinkqlError

_LOGGERS = ("boto3", "botocore", "urllib3")


def silence_debug_logs() -> None:
    """Keep botocore's debug messages back: they show session tokens, signatures and the answers of services."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LOGGERS]
    for logger in map(logging.getLogger, {*names, *_LOGGERS}):
        logger.setLevel(max(logger.level, logging.INFO))


def boto3_missing(who: str) -> SinkqlError:
    """Return the error for those that need boto3, where the extra is not installed."""
    return SinkqlError(
        "SQ4228",
        f"{who} need the Python package boto3, which is not installed",
        hint="Run pip install 'sinkql[aws]'.",
    )
