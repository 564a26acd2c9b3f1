"""A process that converts values to Arrow does not import pandas, and can import it later."""

from __future__ import annotations

import subprocess
import sys


def printed(script: str) -> str:
    """Return what a new process prints."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip()


_SKIP = "import sys; from sinkql.pandas_import import skip_pandas; skip_pandas(); import pyarrow as pa; "


def test_values_are_converted_without_pandas() -> None:
    assert printed(_SKIP + "pa.array([1, None]); import pyarrow.dataset; print('pandas' in sys.modules)") == "False"


def test_pandas_works_afterwards() -> None:
    values = (
        "import pandas as pd; print(pa.array(pd.Series([1.0, None])).null_count, len(pa.table({'a': [1]}).to_pandas()))"
    )
    assert printed(_SKIP + values) == "1 1"
    assert printed(_SKIP + "print(pa.table({'a': [1]}).to_pandas().shape)") == "(1, 1)"


def test_pandas_that_is_there_stays() -> None:
    script = "import pandas as pd; " + _SKIP + "print(pa.array(pd.Series([1.0, None])).null_count)"
    assert printed(script) == "1"
