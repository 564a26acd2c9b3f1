"""The parts of a text that are secrets in URLs."""

from __future__ import annotations

import pytest

from sinkql.errors import SinkqlError
from sinkql.errors.redact import secrets, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see postgresql://u:pw@h:5432/d.", "see postgresql://u:**@h:5432/d."),
        ("postgresql+psycopg://u:p@w/x@h/d", "postgresql+psycopg://u:*****@h/d"),
        ("mysql://:pw@h/d", "mysql://:**@h/d"),
        ("https://token@h/x", "https://*****@h/x"),
        ("https://u:pw@h/x?token=abc&a=b", "https://****@h/x?token=***&a=b"),
        ("HTTPS://u:pw@h", "HTTPS://****@h"),
        ("https://h/?X-Amz-Credential=abc#access_token=de", "https://h/?X-Amz-Credential=***#access_token=**"),
        ("URL = 'https://h/?sig=a%2Fb', B = 'c'", "URL = 'https://h/?sig=*****', B = 'c'"),
        ("'postgres://u:it''s@h/d' x@y", "'postgres://u:*****@h/d' x@y"),
        ("http://h:80/a@b", "http://h:80/a@b"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://h:5432/a@b", "postgresql://h:5432/a@b"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
        ("https://h/?primary_key=a&monkey=b&tokens=3", "https://h/?primary_key=a&monkey=b&tokens=3"),
        ("sqlite:///lake/catalog.db", "sqlite:///lake/catalog.db"),
    ],
)
def test_secrets_in_urls_are_covered(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_url_by_itself_may_have_any_character() -> None:
    assert list(secrets("postgresql://u:a 'b\"@h/d", whole=True)) == [(15, 20)]


def test_errors_show_no_secret_of_a_url() -> None:
    error = SinkqlError("SQ4206", "no http://a:b@h", detail="http://a:b@h", hint="Not http://h?token=b.")
    assert (error.message, error.detail, error.hint) == ("no http://***@h", "http://***@h", "Not http://h?token=**")
    assert str(error) == f"error[SQ4206]: {error.message}\ndetail: {error.detail}\nhint: {error.hint}"
