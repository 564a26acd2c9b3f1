"""Error codes of AWS and Google Cloud connections."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.ENVIRONMENT)

CODES = {
    "SQ4220": _code(
        "AWS rejects the keys of an AWS connection, or the keys of this machine that assume its role.",
        "Check ACCESS KEY ID and SECRET ACCESS KEY. With a role, check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        retryable=True,
    ),
    "SQ4221": _code(
        "The session token of an AWS connection has expired, or belongs to other keys.",
        "Set the secrets to the keys and the token of a new session, or use ASSUME ROLE ARN.",
        retryable=True,
    ),
    "SQ4222": _code(
        (
            "AWS does not let this machine's credentials assume the role of an AWS connection, or the role does "
            "not exist."
        ),
        "Check ASSUME ROLE ARN. In the role's trust policy, allow it with the same external id.",
        retryable=True,
    ),
    "SQ4223": _code(
        "AWS, or the server at ENDPOINT, does not answer, or its answer is not one of AWS.",
        "Check ENDPOINT, REGION and the network.",
        retryable=True,
    ),
    "SQ4224": _code(
        "An AWS connection has a role, but this machine has no AWS credentials to assume it.",
        "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, before you start SinkQL.",
    ),
    "SQ4225": _code(
        "REGION of an AWS connection is not the name of a region.",
        "Write the region of the bucket, for example us-east-1.",
    ),
    "SQ4226": _code(
        "AWS returned an error.",
        "Look up the code in the detail.",
        retryable=True,
    ),
    "SQ4227": _code(
        "This machine does not trust the certificate of the server at ENDPOINT, or that server does not use TLS.",
        (
            "Set AWS_CA_BUNDLE for connections and sources, and SSL_CERT_FILE for sinks, to the authority's "
            "certificate. Or correct ENDPOINT."
        ),
        retryable=True,
    ),
    "SQ4228": _code(
        "Roles, VALIDATE CONNECTION of AWS connections, files in S3, and catalogs of AWS need the package boto3.",
        "Run pip install 'sinkql[aws]'.",
    ),
    "SQ4230": _code(
        "The secret of SERVICE ACCOUNT KEY is not the key of a Google Cloud service account.",
        "Store Google's whole JSON file in the secret: ALTER SECRET name AS file('key.json').",
        retryable=True,
    ),
    "SQ4231": _code(
        (
            "Google rejects the key of a service account. The account or its key was deleted or disabled, or this "
            "machine's clock is wrong."
        ),
        "Create a new key, and store it in the secret with ALTER SECRET.",
        retryable=True,
    ),
    "SQ4232": _code(
        "Google's token server cannot be reached, or its answer has no token.",
        "Check the network, and token_uri in the key.",
        retryable=True,
    ),
    "SQ4233": _code(
        "GCP connections need the package google-auth.",
        "Run pip install 'sinkql[gcp]'.",
    ),
}
