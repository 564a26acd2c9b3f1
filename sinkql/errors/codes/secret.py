"""Error codes of secrets: what encrypts them, and what they read."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.ENVIRONMENT)

CODES = {
    "SQ4107": _code(
        "The key file that encrypts the catalog's secrets is missing.",
        "Restore the file, or set SINKQL_CATALOG_KEY.",
    ),
    "SQ4108": _code(
        "The catalog's key is not the key that encrypted a secret.",
        "Restore the key file or variable that created the secret, or drop the secret and create it again.",
    ),
    "SQ4109": _code(
        "Other users may read the key file.",
        "Run chmod 600 on the file.",
    ),
    "SQ4110": _code(
        "A secret reads an environment variable that is not set.",
        "Set the variable before you start SinkQL.",
    ),
    "SQ4111": _code(
        "A secret reads a file that does not exist, cannot be read, or is not UTF-8.",
        "Correct the path, the permissions or the content of the file.",
    ),
    "SQ4112": _code(
        "The key file or variable contains no 32-byte key in base64.",
        "Write a key from openssl rand -base64 32.",
    ),
    "SQ4118": _code(
        "A catalog in Postgres stores or reads a secret, and the variable SINKQL_CATALOG_KEY is not set.",
        "Set the variable to the same key on every host. For a new catalog, openssl rand -base64 32 prints one.",
    ),
    "SQ4120": _code(
        "A secret needs a Python package that is not installed.",
        "Install it as the hint shows.",
    ),
    "SQ4121": _code(
        "A secret reads a keyring, but this machine has none, or its keyring fails.",
        "Run keyring diagnose, or use env_var or file instead.",
    ),
    "SQ4122": _code(
        "A secret reads a locked keyring.",
        "Unlock the keyring and try again, or use env_var or file instead.",
    ),
    "SQ4123": _code(
        "The keyring has no entry with this service and name.",
        "Add the entry with keyring set, as the user who runs SinkQL.",
    ),
    "SQ4124": _code(
        "The command sinkql secret set received an empty value.",
        "Type the value, or pipe it in.",
    ),
    "SQ4125": _code(
        "The command sinkql secret set received bytes that are not UTF-8.",
        "Store the value as base64 and decode it in SQL, or keep it in a file.",
    ),
    "SQ4126": _code(
        "A notice: a connection contains a password or key as text, so compiled jobs contain it too.",
        "Write SECRET name instead, or keep the jobs as private as the script.",
    ),
    "SQ4130": _code(
        "A secret reads Vault, and VAULT_ADDR is not set or is not a URL.",
        "Set VAULT_ADDR before you start SinkQL, as in https://host:8200.",
    ),
    "SQ4131": _code(
        "A secret reads Vault, and no token is set.",
        "Set VAULT_TOKEN before you start SinkQL, or run vault login.",
    ),
    "SQ4132": _code(
        "The Vault server does not answer.",
        "Check VAULT_ADDR and the network, and that the server runs.",
    ),
    "SQ4133": _code(
        "This machine does not trust the certificate authority of the Vault server.",
        "Set VAULT_CACERT to the certificate of the authority.",
    ),
    "SQ4134": _code(
        "The Vault server rejects the token, or the token's policy does not allow reading the path.",
        "Use a valid token with a policy that allows reading the path.",
    ),
    "SQ4135": _code(
        "The Vault server has no secret at the path.",
        "Write the path as for vault kv get, without /data/.",
    ),
    "SQ4136": _code(
        "The secret in Vault has no field of this name.",
        "Use one of the fields that the hint lists.",
    ),
    "SQ4137": _code(
        "The Vault server is sealed.",
        "Unseal it, and try again.",
    ),
    "SQ4138": _code(
        "The Vault server returned an error.",
        "Read the log of the server.",
    ),
    "SQ4139": _code(
        "The server at VAULT_ADDR is not a Vault server, or has no KV store at the path.",
        "Set VAULT_ADDR to the root of the active server, and check the path.",
    ),
    "SQ4140": _code(
        "A secret reads AWS Secrets Manager, and no credentials are set.",
        "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, before you start SinkQL.",
    ),
    "SQ4141": _code(
        "A secret reads AWS Secrets Manager, and no region is set.",
        "Set AWS_REGION before you start SinkQL, or name the secret by its ARN.",
    ),
    "SQ4142": _code(
        "AWS Secrets Manager does not answer.",
        "Check AWS_REGION, AWS_ENDPOINT_URL and the network.",
    ),
    "SQ4143": _code(
        "AWS rejects the credentials, or they do not allow reading the secret.",
        "Use valid keys that allow secretsmanager:GetSecretValue on the secret.",
    ),
    "SQ4144": _code(
        "AWS Secrets Manager has no secret with this id in the region, or its deletion is scheduled.",
        "Check the id and AWS_REGION.",
    ),
    "SQ4145": _code(
        "The AWS secret is not a JSON object with this field.",
        "Use one of the fields that the hint lists, or leave out the field.",
    ),
    "SQ4146": _code(
        "The AWS secret is binary and not UTF-8 text.",
        "Store the secret as text.",
    ),
    "SQ4147": _code(
        "AWS Secrets Manager returned an error.",
        "Try again. If the error stays, check the secret with aws secretsmanager describe-secret.",
    ),
}
