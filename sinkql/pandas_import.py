"""Keep pyarrow from importing pandas in processes that do not use it.

pyarrow imports pandas, if it is installed, to convert the first Python value of a process to an array or scalar. That
takes 0.2 CPU-s and 30 MB.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def skip_pandas() -> None:
    """Convert a first value without pandas, unless the process has imported it. A later import works as usual."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder = _Finder()
    sys.meta_path.insert(0, finder)
    pa.scalar(0)
    finder.refuses = False


class _Finder(MetaPathFinder):
    """Makes imports of pandas fail while it `refuses` them; tells pyarrow of the first import after that."""

    refuses = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of pandas; None for other modules."""
        if fullname != "pandas":
            return None
        if self.refuses:
            raise ModuleNotFoundError(fullname)
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                import pyarrow as pa

                execute(module)
                pa.nulls(0).to_pandas()

            spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]  # of this loader only
        return spec
