"""What a capture asks of a connector, under the name that it had first."""

from sinkql.extension.capture import *  # noqa: F403
