"""CHECK as senders document it: signed requests are accepted, and no others."""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sinkql import logical
from sinkql.connectors.webhook.check_eval import CheckInput, compile_check
from sinkql.session.session import Session

_BODY = '{"id": 1, "text": "ä"}'
# the tests are collected long before they run
_NOW = str(int(time.time()))
_DAY_S = 86_400
_STRIPE = """
constant_time_eq(
  encode(hmac(regexp_split_to_array(headers->'stripe-signature', ',|=')[
    array_position(regexp_split_to_array(headers->'stripe-signature', ',|='), 't') + 1] || '.' || body, key, 'sha256'),
    'hex'),
  regexp_split_to_array(headers->'stripe-signature', ',|=')[
    array_position(regexp_split_to_array(headers->'stripe-signature', ',|='), 'v1') + 1])
"""
_SLACK = f"""
constant_time_eq(headers->'x-slack-signature', 'v0=' || encode(
  hmac('v0:' || (headers->'x-slack-request-timestamp') || ':' || body, key, 'sha256'), 'hex'))
AND (headers->'x-slack-request-timestamp')::bigint > extract(epoch FROM now()) - {_DAY_S}
"""


def _signed(text: str, algorithm: str = "sha256") -> bytes:
    return hmac.digest(b"k\xc3\xa4y", text.encode(), algorithm)


def _compiled(check: str, folder: Path) -> Callable[[CheckInput], bool]:
    """Return the compiled check of a source."""
    with Session(folder / "catalog.db") as session:
        session.execute(
            "CREATE SECRET key AS 'x'; CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON "
            f"CHECK (WITH (HEADERS, BODY, SECRET key) {check});"
        )
        item = session.catalog.plans.item("materialize.public.s")
    assert isinstance(item, logical.Source)
    return compile_check(item.options["tuning"]["options"]["check"], {"materialize.public.key": "käy"}.__getitem__)


@pytest.mark.parametrize(
    ("check", "headers"),
    [
        ("constant_time_eq(headers->'Authorization', key)", {"authorization": "käy"}),
        (
            "constant_time_eq('sha256=' || encode(hmac(body, key, 'sha256'), 'hex'), headers->'x-hub-signature-256')",
            {"x-hub-signature-256": f"sha256={_signed(_BODY).hex()}"},
        ),
        (
            "constant_time_eq(decode(headers->'x-signature', 'hex'), hmac(body, key, 'sha1'))",
            {"x-signature": _signed(_BODY, "sha1").hex()},
        ),
        (
            "decode(headers->'x-signature', 'base64') = hmac(body, key, 'sha512')",
            {"x-signature": base64.b64encode(_signed(_BODY, "sha512")).decode()},
        ),
        (_STRIPE, {"stripe-signature": f"t={_NOW},v0=x,v1={_signed(f'{_NOW}.{_BODY}').hex()}"}),
        (
            _SLACK,
            {"x-slack-request-timestamp": _NOW, "x-slack-signature": f"v0={_signed(f'v0:{_NOW}:{_BODY}').hex()}"},
        ),
        ("coalesce(headers->'a', '') IN ('x', 'y') AND NOT headers->'b' IS NOT NULL", {"a": "y"}),
        ("split_part(headers->'a', '.', 2) = lower('B') OR headers->'no' = 'x'", {"a": "a.b"}),
    ],
)
def test_what_senders_sign_is_let_in(check: str, headers: Mapping[str, str], tmp_path: Path) -> None:
    passes = _compiled(check, tmp_path)
    given = {name: value.encode() for name, value in headers.items()}
    assert passes(CheckInput(given, _BODY.encode()))
    assert not passes(CheckInput({}, _BODY.encode()))
    assert not passes(CheckInput({name: value + b"0" for name, value in given.items()}, _BODY.encode()))
    if "body" in check:
        assert not passes(CheckInput(given, _BODY.encode() + b" "))


def test_what_was_signed_too_long_ago_is_not_let_in(tmp_path: Path) -> None:
    passes = _compiled(_SLACK, tmp_path)
    for age, expected in ((0, True), (2 * _DAY_S, False)):
        at = str(int(_NOW) - age)
        headers = {"x-slack-request-timestamp": at, "x-slack-signature": f"v0={_signed(f'v0:{at}:{_BODY}').hex()}"}
        given = {name: value.encode() for name, value in headers.items()}
        assert passes(CheckInput(given, _BODY.encode())) is expected


def test_a_check_that_fails_lets_nobody_in() -> None:
    for check in ('["to_number",["constant","x"]]', '["call","decode",["constant","zz"],["constant","hex"]]'):
        assert not compile_check(f'["=",{check},{check}]', str)(CheckInput({}, b""))
    assert not compile_check('["=",["body",false],["body",false]]', str)(CheckInput({}, b"\xff"))
    assert not compile_check('["constant",null]', str)(CheckInput({}, b""))
