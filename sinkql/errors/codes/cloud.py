"""Error codes of AWS and Google Cloud connections."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.ENVIRONMENT)

CODES = {
    "SQ4220": _code(
        "AWS rejects the keys of an AWS connection, or those of this machine that were to assume its role.",
        "Check ACCESS KEY ID and SECRET ACCESS KEY; with a role AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        retryable=True,
    ),
    "SQ4221": _code(
        "The session token of an AWS connection has expired, or is not the one of its keys.",
        "Give the secrets the keys and the token of a new session, or use ASSUME ROLE ARN.",
        retryable=True,
    ),
    "SQ4222": _code(
        "AWS does not let this machine's credentials assume the role of an AWS connection, or there is no such role.",
        "Check ASSUME ROLE ARN, and allow it in the role's trust policy, with the same external id. A running sink "
        "tries again by itself.",
        retryable=True,
    ),
    "SQ4223": _code(
        "AWS, or the server at ENDPOINT of an AWS connection, does not answer, or not as AWS does.",
        "Check ENDPOINT, REGION and the network. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4224": _code(
        "An AWS connection has a role, and this machine has no AWS credentials to assume it with.",
        "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, before the job starts.",
    ),
    "SQ4225": _code(
        "REGION of an AWS connection is not the name of a region.",
        "Write the region of the bucket, such as us-east-1.",
    ),
    "SQ4226": _code(
        "AWS answers with an error of its own.",
        "Look up the code in the detail. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4227": _code(
        "The certificate of the server at ENDPOINT of an AWS connection is not trusted, or the server does "
        "not use TLS.",
        "Set AWS_CA_BUNDLE, which connections and sources read, and SSL_CERT_FILE, which sinks read, to the "
        "certificate of its authority, or correct ENDPOINT. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4228": _code(
        "Roles, VALIDATE CONNECTION of AWS connections, files in S3, and catalogs of AWS need boto3, which is not "
        "installed.",
        "Run pip install 'sinkql[aws]'.",
    ),
    "SQ4230": _code(
        "The secret of SERVICE ACCOUNT KEY is not the key of a service account of Google Cloud.",
        "Give the secret the whole file of JSON that Google gave out: ALTER SECRET name AS file('key.json'). A running "
        "sink tries again by itself.",
        retryable=True,
    ),
    "SQ4231": _code(
        "Google rejects the key of a service account: the account or its key was deleted or disabled, or the clock of "
        "this machine is wrong.",
        "Make a new key, and give it to the secret with ALTER SECRET. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4232": _code(
        "The server of Google's tokens cannot be reached, or answers without a token.",
        "Check the network, and token_uri in the key. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4233": _code(
        "GCP connections need google-auth, which an extra of SinkQL installs.",
        "Run pip install 'sinkql[gcp]'.",
    ),
}
