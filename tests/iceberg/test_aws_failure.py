"""Each failure of AWS has its code and names the option at fault; no message of AWS is shown."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from sinkql import logical
from sinkql.connectors.aws.store import validate
from sinkql.errors import SinkqlError
from sinkql.object_store.s3 import failure
from support.access import Access

_ROLE = "arn:aws:iam::123456789012:role/lake"
_PART = {"secret_text": [{"secret": "s"}]}
_KEYS = {"access_key_id": _PART, "secret_access_key": _PART}


@pytest.mark.parametrize(
    ("answer", "role", "code", "option"),
    [
        ("ExpiredToken", None, "SQ4221", "SESSION TOKEN"),
        ("ExpiredToken", _ROLE, "SQ4220", "ASSUME ROLE ARN"),
        ("InvalidAccessKeyId", None, "SQ4220", "ACCESS KEY ID"),
        ("InvalidClientTokenId", _ROLE, "SQ4220", "ASSUME ROLE ARN"),
        ("AccessDenied", _ROLE, "SQ4222", "ASSUME ROLE ARN"),
        ("InternalFailure", _ROLE, "SQ4226", None),
        ("AccessDenied", None, "SQ4226", None),
    ],
)
def test_an_answer_of_aws_has_its_code(answer: str, role: str | None, code: str, option: str | None) -> None:
    error = failure(ClientError({"Error": {"Code": answer, "Message": "token=abcd"}}, "AssumeRole"), role=role)
    assert (error.code, error.option, error.detail) == (code, option, answer)
    assert "abcd" not in str(error)


def test_an_address_that_nobody_answers_at_is_the_endpoint() -> None:
    error = failure(EndpointConnectionError(endpoint_url="http://127.0.0.1:1"))
    assert (error.code, error.option) == ("SQ4223", "ENDPOINT")


@pytest.mark.server
def test_without_endpoint_the_region_is_what_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    with pytest.raises(SinkqlError) as caught:
        validate(logical.Connection("c", "AWS", {**_KEYS, "region": "us-east-9"}), Access())
    assert (caught.value.code, caught.value.option) == ("SQ4223", "REGION")
    assert "ENDPOINT" not in (caught.value.hint or "")


def test_what_is_no_failure_of_aws_stays_as_it_is() -> None:
    error = SinkqlError("SQ4222", "refused")
    assert failure(error) is error


@pytest.mark.parametrize("options", [_KEYS, {"assume_role_arn": _ROLE}, {**_KEYS, "endpoint": "http://127.0.0.1:1"}])
def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    for name in ("boto3", "botocore", "botocore.config", "botocore.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SinkqlError) as caught:
        validate(logical.Connection("c", "AWS", options), Access())
    assert caught.value.code == "SQ4228"
    assert "sinkql[aws]" in str(caught.value)
