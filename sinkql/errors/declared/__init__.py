"""Every error code, one module a family.

SQ1: `syntax`. SQ2: `item`, `query`, `connector`, `statement`, and `unsupported` for what the dialect has but this
version does not run. SQ3: `run`. SQ4: `environment`. SQ5: `conflict`. What only one system's connections and
sources have is in a module of its name.
"""

from sinkql.errors.declared import (
    conflict,
    connector,
    environment,
    item,
    mysql,
    postgres,
    query,
    run,
    statement,
    syntax,
    unsupported,
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
    conflict.CODES,
    postgres.CODES,
    mysql.CODES,
)
