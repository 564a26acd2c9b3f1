"""AWS connections as object stores: their properties, which never show a secret."""

from sinkql.connector_api.options import reveal, secret_data
from sinkql.connector_api.registry import discover
from sinkql.logical import SecretName, SecretText

KEYS = {
    "access_key_id": {"secret_text": ["AK"]},
    "secret_access_key": {"secret_text": [{"secret": "materialize.public.s"}]},
}
SECRETS = {"materialize.public.s": "hush"}


def test_a_secret_text_comes_back_as_its_parts_joined() -> None:
    text = SecretText(("id:", SecretName("materialize.public.s"), "!"))
    assert reveal(secret_data(text), SECRETS.__getitem__) == "id:hush!"


def test_keys_become_s3_properties() -> None:
    store = discover().store("AWS", KEYS | {"region": "eu-west-1"}, SECRETS.__getitem__)
    assert dict(store.properties()) == {
        "s3.access-key-id": "AK",
        "s3.secret-access-key": "hush",
        "s3.region": "eu-west-1",
    }


def test_an_endpoint_is_addressed_by_path_and_has_some_region() -> None:
    store = discover().store("AWS", KEYS | {"endpoint": "http://127.0.0.1:8333"}, SECRETS.__getitem__)
    found = store.properties()
    assert (found["s3.endpoint"], found["s3.path-style-access"]) == ("http://127.0.0.1:8333", "true")
    assert found["s3.region"] == "us-east-1"


def test_a_session_token_goes_with_the_keys() -> None:
    store = discover().store("AWS", KEYS | {"session_token": {"secret_text": ["t"]}}, SECRETS.__getitem__)
    assert store.properties()["s3.session-token"] == "t"


def test_a_store_does_not_show_its_keys() -> None:
    store = discover().store("AWS", KEYS, SECRETS.__getitem__)
    assert "hush" not in repr(store)
