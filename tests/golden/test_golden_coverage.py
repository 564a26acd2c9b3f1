"""Each error that SQL text can cause is in a golden file."""

from __future__ import annotations

import re

from docs.error_page import codes
from golden.test_golden import FILES

# codes that SQL text alone cannot cause, and the test that asserts each
ELSEWHERE = {
    "SQ2482": "an artifact that a registry lacks: tests/kafka/test_formats.py",
    "SQ2483": "an artifact of another kind in a registry: tests/kafka/test_formats.py",
    "SQ2934": "a query that Spark runs: tests/views/test_windows.py",
    "SQ1010": "a script that is not UTF-8: tests/endtoend/test_mistakes.py",
    "SQ1029": "a statement of a million words: tests/language/test_hostile_input.py",
    "SQ2209": "an expression that is nested too deeply: tests/planner/test_identity.py",
    "SQ2339": "a sink that has not run: tests/session/test_optimize.py",
    "SQ2348": "a branch that is published: tests/session/test_publish.py",
    "SQ2415": "files to sample: tests/files/test_infer.py",
    "SQ2832": "columns of a server: tests/mysql/test_source.py",
    "SQ2819": "generated columns of a server: tests/postgres/test_source.py",
    "SQ2353": "a loss that is skipped: tests/session/test_captured.py",
    "SQ2434": "a script that is compiled: tests/session/test_program.py",
    "SQ2477": "the key of Debezium's messages: tests/kafka/test_plan.py",
    "SQ2635": "a script that is planned: tests/deploy/test_plan_and_apply.py",
    "SQ2554": "keys of a server: tests/postgres/test_tunnel.py",
    "SQ2478": "tables of a server: tests/postgres/test_source.py",
    "SQ2468": "tables of a server: tests/postgres/test_source.py",
    "SQ2467": "tables of a server: tests/postgres/test_source.py",
    "SQ2616": "a folder that cannot be written to: tests/state_store/test_state_directory.py",
    "SQ2641": "more rows than a query reads: tests/session/test_query.py",
    "SQ2643": "a sink that cannot be read: tests/session/test_query.py",
    "SQ2644": "rows that do not decode: tests/session/test_query.py",
    "SQ2645": "files that a query names: tests/session/test_file_queries.py",
    "SQ2646": "files that a query names: tests/session/test_file_queries.py",
    "SQ2647": "years that Python does not support: tests/table/test_table_spark.py",
    "SQ2649": "a view that runs: tests/view/test_contents.py",
    "SQ2356": "a second sink: tests/view/test_view_jobs.py",
    "SQ2656": "a view that does not run: tests/view/test_subscribe.py",
    "SQ2657": "a view that is dropped: tests/view/test_subscribe.py",
    "SQ2650": "statements after an error: tests/session/test_transaction.py",
    "SQ2653": "statements after an error: tests/session/test_transaction.py",
    "SQ2655": "the end of a script: tests/session/test_transaction.py",
    "SQ2661": "rows of a test: tests/testing/test_pipeline.py",
    "SQ2662": "rows of a test: tests/testing/test_pipeline.py",
    "SQ2663": "rows of a test: tests/testing/test_pipeline.py",
    "SQ2701": "a warning of sinkql lint: tests/cli/test_lint.py",
    "SQ2702": "a warning of sinkql lint: tests/cli/test_lint.py",
    "SQ2703": "a warning of sinkql lint: tests/cli/test_lint.py",
    "SQ2770": "a warning of sinkql lint: tests/cli/test_lint_folder.py",
    "SQ2704": "a warning of sinkql lint: tests/cli/test_lint.py",
    **{f"SQ{code}": "facts of a server: tests/postgres/test_source.py" for code in (*range(2802, 2815), 2817)},
    **{f"SQ{code}": "facts of a server: tests/mysql/test_source.py" for code in (2830, 2831)},
    "SQ2984": "a connector of another package: tests/iceberg/test_validate.py",
    "SQ2985": "a sink that has a table: tests/session/test_rename.py",
}


def test_every_code_of_parser_and_planner_has_a_golden() -> None:
    text = "\n".join(path.read_text("utf-8") for path in FILES)
    shown = set(re.findall(r"(?:error|notice)\[(SQ\d{4})\]", text))
    raised = {code for code in codes() if code.startswith(("SQ1", "SQ2"))}
    assert raised - shown == set(ELSEWHERE)
