"""Every error code, one module a family.

SQ1: `syntax`. SQ2: `item`, `query`, `connector`, `statement`, and `unsupported` for what the dialect has but this
version does not run. SQ3: `run`. SQ4: `environment`, `secret`, `environment`, `environment`. SQ5: `conflict`. What only
one system's connections, sources and sinks have is in a module of its name.
"""

from sinkql.errors.codes import (
    conflict,
    connector,
    environment,
    item,
    kafka,
    mysql,
    postgres,
    query,
    run,
    secret,
    statement,
    syntax,
    unsupported,
    webhook,
)

CODES = (
    syntax.CODES,
    item.CODES,
    query.CODES,
    connector.CODES,
    statement.CODES,
    unsupported.CODES,
    run.CODES,
    environment.CODES,
    secret.CODES,
    kafka.CODES,
    conflict.CODES,
    postgres.CODES,
    mysql.CODES,
    webhook.CODES,
)
