"""Google Cloud connections: declared, not supported yet."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.extension.options import SecretOnly
from sinkql.extension.plan import Connector, Later


@dataclass(frozen=True, slots=True)
class GcpOptions:
    """The options of TO GCP."""

    service_account_key: SecretOnly


connector = Connector("gcp", later=(Later("CONNECTION", "GCP", GcpOptions),))
