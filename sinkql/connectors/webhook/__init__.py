"""Webhooks, sources that others send rows to: declared, not supported yet."""

from sinkql.extension.plan import Connector, Later

connector = Connector("webhook", later=(Later("SOURCE", "WEBHOOK"),))
