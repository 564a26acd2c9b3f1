"""Loggers of boto3 → silence below INFO, for whoever signs requests with keys of AWS."""

from __future__ import annotations

import logging

_LOGGERS = ("boto3", "botocore", "urllib3")


def hush() -> None:
    """Keep botocore's debug messages back: they show session tokens, signatures and the answers of services."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LOGGERS]
    for logger in map(logging.getLogger, {*names, *_LOGGERS}):
        logger.setLevel(max(logger.level, logging.INFO))
