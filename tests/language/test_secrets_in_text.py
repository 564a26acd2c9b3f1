"""No script shows a secret, whether the script is correct or not."""

from __future__ import annotations

import pytest

from sinkql.keywords import secret_setting
from sinkql.script.redaction import holds_secret, mask
from support.keywords import WORDS

_WITH_SECRET = [
    "CREATE SECRET s AS 'hunter22';",
    "CREATE SECRET s AS $$hunter22$$;",
    "CREATE SECRET s AS $x$hunter22$x$;",
    "CREATE SECRET s AS 'a' || E'hunter22\\n';",
    "CREATE SECRET IF NOT EXISTS a.\"b\" AS 'x'\n 'hunter22';",
    "CREATE /* ' */ SECRET s 'hunter22';",
    "/* /* */ ' */ CREATE SECRET s AS 'hunter22';",
    "CREATE SECRET a AS 'x\\'; CREATE SECRET s AS 'hunter22';",
    "CREATE SECRT s AS 'hunter22';",
    "CREAT SECRET s AS 'hunter22';",
    "CREATE OR REPLACE SECRET s AS 'hunter22';",
    "ALTER SECRET s AS 'hunter22';",
    "CREATE SECRET s AS 'hunter22",
    "CREATE SECRET s AS E'hunter22\\x';",
    "CREATE SECRET s AS decode('hunter22', 'base64');",
    "CREATE SECRET s AS X'hunter22';",
    "CREATE SECRET s AS 'x' || decode('hunter22', 'base64');",
    "CREATE SECRET s AS vault('p', 'f') || 'hunter22';",
    "CREATE SECRET s AS nope('hunter22');",
    "CREATE SECRET s AS hunter22;",
    'CREATE SECRET s AS "hunter22";',
    "CREATE SECRET a.s = hunter22",
    "CREATE SECRET s hunter22;",
    "CREATE SECRET IF NOT EXISTS s hunter22-x",
    "ALTER SECRET IF EXISTS s AS hunter22;",
    "ALTER CONNECTION c SET (PASSWORD = 'hunter22');",
    "CREATE CONNECTION c TO AWS (REGION = 'x', SESSION TOKEN = 'hunter22');",
    "CREATE CONNECTION c TO AWS (ACCESS KEY ID 'hunter22'",
    "CREATE CONNECTION c TO AWS (ACCESS KEY ID 'hunter22",
    "CREATE CONNECTION c TO POSTGRES (PASSWORD = hunter22);",
    "CREATE CONNECTION c TO POSTGRES (PASSWORD hunter22);",
    'CREATE CONNECTION c TO POSTGRES (PASSWORD "hunter22");',
    "CREATE CONECTION c FOR POSTGRES PASSWORD 'hunter22';",
    "CREATE CONNECTION c TO ICEBERG CATALOG (CREDENTIAL = 'id:' || SECRET s || 'hunter22');",
    # kinds that no connector offers, options that no kind has
    "CREATE CONNECTION c TO NOWHERE (URL = 'x', CODE = 'hunter22');",
    "CREATE SOURCE s FROM NOWHERE CONNECTION c (CODE 'hunter22') FORMAT JSON;",
    "CREATE SINK s FROM v INTO NOWHERE CONNECTION c (CODE = 'hunter22') MODE APPEND;",
    "CREATE CONNECTION c TO ICEBERG CATALOGUE (CODE = 'hunter22');",
    "CREATE CONNECTION c TO AWS (SESION TOKEN = 'hunter22');",
    "CREATE CONNECTION c TO AWS (API_KEY = 'hunter22');",
    "CREATE SOURCE s FROM FILES (PATH = 'x', PASSWD = 'hunter22');",
    "ALTER CONNECTION c SET (PASSWRD = 'hunter22');",
]

_WITHOUT_SECRET = [
    "SELECT 'a', user, \"b\" FROM t WHERE (user = 'c');",
    "CREATE SECRET s AS env_var('TOKEN');",
    "CREATE SINK s FROM v INTO ICEBERG CATALOG CONNECTION c (NAMESPACE = 'n', TABLE 't');",
    "CREATE CONNECTION c TO AWS (SECRET ACCESS KEY = SECRET s, REGION = 'x', CREDENTIAL SECRET \"Q\");",
    "CREATE SORCE s FROM FILES (PATH '/x');",
    "CREATE SOURCE s FROM FILE (PATH = '/x');",
    "CREATE CONNECTION c TO ICEBERG CATALOGUE (URL = 'http://x');",
    "CREATE TABLE t (id bigint, name text DEFAULT 'x', PRIMARY KEY (id));",
    "COMMENT ON TABLE t IS 'its primary key';",
    "CREATE SECRET s AS keyring('service', 'name');",
    "CREATE SECRET s AS VAULT ( 'kv/path', 'field' );",
    "ALTER SECRET s AS aws_secret('id', 'field');",
    "ALTER SECRET s RENAME TO other;",
    "ALTER SECRET s OWNER TO joe;",
    "DROP SECRET a, b CASCADE;",
    "COMMENT ON SECRET s IS 'what it is for';",
    "SHOW SECRETS LIKE 'x';",
]


@pytest.mark.parametrize("text", _WITH_SECRET)
def test_secret_is_covered_in_place(text: str) -> None:
    masked = mask(text, WORDS).text
    assert "hunter22" not in masked
    assert len(text) == len(masked)
    assert text.count("\n") == masked.count("\n")


@pytest.mark.parametrize("text", _WITHOUT_SECRET)
def test_the_rest_stays_readable(text: str) -> None:
    assert text == mask(text, WORDS).text


def test_literal_of_a_secret_is_taken_out_of_messages() -> None:
    assert mask("CREATE SECRET s AS 'hunter22'; CREATE SECRET t AS 'abc';", WORDS).literals == ("hunter22",)


@pytest.mark.parametrize(
    "text",
    [
        *_WITH_SECRET,
        "-- CREATE SECRET s AS 'hunter22'",
        "SHOW SINKS; /* CREATE SECRET s AS 'hunter22'; */",
        "CREATE SECRET s AS '",
        "CREATE SECRET s AS $$hunter",
        "CREATE CONNECTION c TO POSTGRES (PASSWORD '",
        "SHOW SINKS; CREATE SECRET s AS 'hunter22'",
    ],
)
def test_text_with_a_secret_is_known(text: str) -> None:
    assert holds_secret(text, WORDS)


@pytest.mark.parametrize("text", [*_WITHOUT_SECRET, "", "CREATE SECRET", "CREATE SECRET s AS"])
def test_text_without_a_secret_is_known(text: str) -> None:
    assert not holds_secret(text, WORDS)


def test_encoding_of_a_secret_stays_readable() -> None:
    assert (
        mask("CREATE SECRET s AS decode('hunter22', 'base64');", WORDS).text
        == "CREATE SECRET s AS decode('********', 'base64');"
    )


def test_text_that_no_script_may_hold_is_masked_all_the_same() -> None:
    assert mask("CREATE SECRET \"\ud800\" AS 'hunter22'", WORDS).text == "CREATE SECRET \"\ud800\" AS '********'"


@pytest.mark.parametrize("text", ["INSERT INTO t SELECT a FROM u WHERE b = 'c';", "SELCT a FROM t WHERE b = 'hunter';"])
def test_statement_that_only_resembles_one_of_a_secret_stays_readable(text: str) -> None:
    assert text == mask(text, WORDS).text


@pytest.mark.parametrize("label", ["_", "__", '"_ _"'])
def test_a_label_without_a_word_hides_nothing(label: str) -> None:
    script = f"CREATE CONNECTION c TO AWS ({label} 'x' y);"
    assert len(mask(script, WORDS).text) == len(script)


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.s3a.session.token", True),
        ("spark.executorEnv.AWS_SECRET_ACCESS_KEY", True),
        ("spark.sql.catalog.x.s3.secret-access-key", True),
        ("spark.sql.catalog.x.credential", True),
        ("spark.ssl.keyStorePassword", True),
        ("spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net", True),
        ("spark.hadoop.fs.s3a.access.key", False),
        ("spark.sql.shuffle.partitions", False),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", False),
    ],
)
def test_a_setting_of_spark_is_a_secret_by_its_name(key: str, *, secret: bool) -> None:
    assert secret_setting(key) == secret
