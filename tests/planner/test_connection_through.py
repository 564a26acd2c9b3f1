"""A catalog connection through an AWS connection: a job carries both."""

from __future__ import annotations

import json

import msgspec

import sinkql
from sinkql.physical import decode, encode

_SCRIPT = """
CREATE SECRET key AS env_var('KEY');
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'AK', SECRET ACCESS KEY = SECRET key, REGION = 'eu-west-1');
CREATE CONNECTION tables TO ICEBERG CATALOG (
  CATALOG TYPE = 's3tablesrest', URL = 'https://s3tables.eu-west-1.amazonaws.com', WAREHOUSE = 'b', AWS CONNECTION = aws
);
CREATE SOURCE n FROM LOAD GENERATOR COUNTER;
CREATE SINK s FROM n INTO ICEBERG CATALOG CONNECTION tables (NAMESPACE 'a', TABLE 't')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""


def test_a_job_carries_the_connection_that_its_catalog_goes_through() -> None:
    (job,) = sinkql.compile(_SCRIPT).jobs
    connection = job.write.connection
    assert connection.options["aws_connection"] == {"connection": "materialize.public.aws"}
    assert connection.through["materialize.public.aws"].options["region"] == "eu-west-1"
    assert job.secrets() == {"materialize.public.key"}
    assert decode(encode(job)) == job


def test_a_connection_that_goes_through_none_says_nothing_of_it() -> None:
    script = _SCRIPT.replace("INTO ICEBERG CATALOG CONNECTION tables", "INTO ICEBERG CATALOG CONNECTION plain")
    plain = "CREATE CONNECTION plain TO ICEBERG CATALOG (CATALOG TYPE = 'memory');"
    (job,) = sinkql.compile(plain + script).jobs
    assert "through" not in json.loads(encode(job))["write"]["connection"]


def test_secrets_of_a_format_are_the_jobs() -> None:
    (job,) = sinkql.compile(_SCRIPT).jobs
    (read,) = job.reads()
    registry = {"options": {"password": {"secret_text": [{"secret": "materialize.public.other"}]}}}
    read = msgspec.structs.replace(read, options={**read.options, "format": {"registry": registry}})
    other = msgspec.structs.replace(job, write=msgspec.structs.replace(job.write, input=read))
    assert other.secrets() == {"materialize.public.key", "materialize.public.other"}
