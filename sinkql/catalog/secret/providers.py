"""A path and a field of a HashiCorp Vault or OpenBao server → the value that its KV store has now.

Address, token and namespace come from the environment: BAO_ADDR, BAO_TOKEN, BAO_NAMESPACE, BAO_CACERT and the like, or
the same with VAULT_; without a token variable from ~/.vault-token, where `vault login` puts it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

from sinkql.errors import SinkqlError
from sinkql.local_path import home_folder

_PATIENCE_S = 5.0


def from_vault(name: str, path: str, field: str) -> str:
    """Return the field's value, JSON for one that is not text. Raises SQ4130 to SQ4139, ModuleNotFoundError."""
    import hvac  # an extra, which brings requests
    import requests
    from hvac import exceptions

    address, token = _address(name), _token(name)
    client = hvac.Client(
        url=address,
        token=token,
        namespace=_setting("NAMESPACE"),
        verify=_verify(),
        timeout=_PATIENCE_S,
        allow_redirects=False,  # the token goes to the server that was named, and to no other
    )
    try:
        data = _read(client, path.strip("/"))
    except requests.exceptions.SSLError:
        raise SinkqlError(
            "SQ4133",
            f'the certificate of the Vault server of secret "{name}" is not trusted',
            hint="Set VAULT_CACERT to the file of the authority that signed it.",
        ) from None
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
        raise _no_address(name) from None
    except requests.exceptions.InvalidHeader:
        raise _no_token(name) from None
    except (requests.RequestException, exceptions.BadGateway) as error:
        raise SinkqlError(
            "SQ4132",
            f'the Vault server of secret "{name}" does not answer',
            detail=f"{_shown(address)}: {type(error).__name__}",
            hint="Check VAULT_ADDR, and that the server runs.",
        ) from None
    except exceptions.VaultError as error:
        raise _answered(name, path, error) from None
    except (LookupError, TypeError, ValueError, AttributeError):
        raise SinkqlError(
            "SQ4139",
            f'the server for secret "{name}" is not Vault, or has no KV store at "{path}"',
            detail=_shown(address),
            hint="Check that VAULT_ADDR is the root of the active server, such as https://host:8200.",
        ) from None
    return _field(name, path, field, data)


# --- what the environment says -----------------------------------------------------------------------------------


def _setting(name: str) -> str | None:
    return os.environ.get(f"BAO_{name}") or os.environ.get(f"VAULT_{name}") or None


def _address(name: str) -> str:
    address = _setting("ADDR")
    if address is None:
        raise _no_address(name)
    return address


def _no_address(name: str) -> SinkqlError:
    return SinkqlError(
        "SQ4130",
        f'VAULT_ADDR does not name the Vault server of secret "{name}"',
        hint="Set it before the job starts: export VAULT_ADDR=https://host:8200.",
    )


def _token(name: str) -> str:
    token = _setting("TOKEN")
    if token is None:
        with suppress(OSError, UnicodeDecodeError):
            own = home_folder()
            token = (own / ".vault-token").read_text() if own is not None else None
    token = (token or "").strip()
    if not token:
        raise _no_token(name)
    return token


def _no_token(name: str) -> SinkqlError:
    return SinkqlError(
        "SQ4131",
        f'there is no token for the Vault server of secret "{name}"',
        hint="Set VAULT_TOKEN before the job starts, or run vault login.",
    )


def _verify() -> bool | str:
    if (_setting("SKIP_VERIFY") or "").lower() in ("1", "true", "t"):
        return False
    return _setting("CACERT") or _setting("CAPATH") or True


def _shown(address: str) -> str:
    """Return an address without the user and password that it may hold."""
    scheme, mark, rest = address.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


# --- what the server says ----------------------------------------------------------------------------------------


def _read(client: Any, path: str) -> dict[str, Any]:  # hvac has no types
    """Return the fields at a path, of the version of KV that is mounted there."""
    mount = client.adapter.get(f"/v1/sys/internal/ui/mounts/{path}")["data"]
    if (mount.get("options") or {}).get("version") != "2":
        found = client.adapter.get(f"/v1/{path}")["data"]
    else:
        root = mount["path"]
        found = client.adapter.get(f"/v1/{root}data/{path.removeprefix(root)}")["data"]["data"]
    return dict(found)


def _answered(name: str, path: str, error: Any) -> SinkqlError:
    """Return the error for what the server refused; its own words are left out where they may quote anything."""
    from hvac import exceptions

    match error:
        case exceptions.Forbidden() | exceptions.Unauthorized():
            return SinkqlError(
                "SQ4134",
                f'the Vault server denies access to secret "{name}"',
                hint=f'Set VAULT_TOKEN to a token that is valid, and whose policy may read "{path}".',
            )
        case exceptions.InvalidPath():
            return SinkqlError(
                "SQ4135",
                f'the Vault server has nothing at "{path}" for secret "{name}"',
                hint="Write the path as vault kv get takes it, without /data/.",
            )
        case exceptions.VaultDown() | exceptions.VaultNotInitialized():
            return SinkqlError(
                "SQ4137",
                f'the Vault server of secret "{name}" is sealed',
                hint="Unseal it, and start the job again.",
            )
        case _:
            return SinkqlError(
                "SQ4138",
                f'the Vault server of secret "{name}" fails',
                detail=type(error).__name__,
                hint="Look into the server's log.",
            )


def _field(name: str, path: str, field: str, data: dict[str, Any]) -> str:
    value = data.get(field)
    if value is None:
        known = ", ".join(sorted(data)) or "none"
        raise SinkqlError(
            "SQ4136",
            f'"{path}" of the Vault server has no field "{field}", for secret "{name}"',
            hint=f"Its fields are: {known}.",
        )
    return value if isinstance(value, str) else json.dumps(value)
