"""An exception of boto3 → one coded error with its cause, at the option that causes it."""

from __future__ import annotations

from sinkql.errors import SinkqlError

_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidToken")
_WRONG_KEYS = (
    "InvalidClientTokenId",
    "InvalidAccessKeyId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "AuthFailure",
    "IncompleteSignature",
    "InvalidSignatureException",
)
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NoSuchEntity")


def failure(error: Exception, *, role: str | None = None) -> SinkqlError:
    """Return the error to show for what a request to AWS raised; `role` is the one that it was to assume.

    Messages of AWS stay out: that of a wrong signature has the request's session token in it.
    """
    if isinstance(error, SinkqlError):
        return error
    from botocore import exceptions

    match error:
        case exceptions.ClientError():
            code: str = error.response.get("Error", {}).get("Code", "")
            return _answered(code, role)
        case (
            exceptions.NoCredentialsError()
            | exceptions.PartialCredentialsError()
            | exceptions.CredentialRetrievalError()
        ):
            return SinkqlError(
                "SQ4224",
                "this machine has no AWS credentials to assume the role with",
                detail=type(error).__name__,
                hint="Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
                option="ASSUME ROLE ARN",
            )
        case exceptions.InvalidRegionError() | exceptions.NoRegionError():
            return SinkqlError(
                "SQ4225",
                "REGION of the AWS connection is not the name of a region",
                detail=type(error).__name__,
                hint="Write REGION = 'us-east-1', or that of the bucket.",
                option="REGION",
            )
        case exceptions.SSLError():
            return SinkqlError(
                "SQ4227",
                "the certificate of ENDPOINT of the AWS connection is not trusted",
                detail=type(error).__name__,
                hint="Set AWS_CA_BUNDLE and SSL_CERT_FILE to the certificate of its authority, or write http:// if it "
                "speaks no TLS.",
                option="ENDPOINT",
            )
        case exceptions.ConnectionError() | exceptions.HTTPClientError() | exceptions.IncompleteReadError():
            return SinkqlError(
                "SQ4223",
                "AWS does not answer",
                detail=type(error).__name__,
                hint="Check ENDPOINT and REGION of the AWS connection, and the network.",
                option="ENDPOINT",
            )
        case _:
            return _fails(type(error).__name__)


def _answered(code: str, role: str | None) -> SinkqlError:
    if code in _EXPIRED and role is not None:
        return SinkqlError(
            "SQ4220",
            "the AWS session of this machine has expired",
            detail=code,
            hint="Log in again, or set AWS_SESSION_TOKEN anew.",
            option="ASSUME ROLE ARN",
        )
    if code in _EXPIRED:
        return SinkqlError(
            "SQ4221",
            "the session token of the AWS connection has expired, or is wrong",
            detail=code,
            hint="Give the secrets the keys and the token of a new session, or use a role, which is renewed by itself.",
            option="SESSION TOKEN",
        )
    if code in _WRONG_KEYS:
        return SinkqlError(
            "SQ4220",
            "AWS rejects the keys of this machine" if role else "AWS rejects the keys of the connection",
            detail=code,
            hint="Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
            if role
            else "Check ACCESS KEY ID and SECRET ACCESS KEY.",
            option="ASSUME ROLE ARN" if role else "ACCESS KEY ID",
        )
    if role is not None and code in _DENIED:
        return SinkqlError(
            "SQ4222",
            f'role "{role}" may not be assumed',
            detail=code,
            hint="Allow it in the role's trust policy to the AWS credentials of this machine, "
            "with the same external id.",
            option="ASSUME ROLE ARN",
        )
    if code.isdigit() and code.startswith("4") and code != "403":  # no code of AWS came with the status
        return no_s3()
    return _fails(code)


def no_s3() -> SinkqlError:
    """Return the error to show for a server that answers, and not as S3 does."""
    return SinkqlError(
        "SQ4223",
        "the server at ENDPOINT of the AWS connection does not answer as S3 does",
        hint="Check ENDPOINT; a server's console, and its catalog, have other ports than its S3.",
        option="ENDPOINT",
    )


def _fails(cause: str) -> SinkqlError:
    return SinkqlError(
        "SQ4226", "AWS answers with an error", detail=cause, hint="Try again; the detail names the cause."
    )
