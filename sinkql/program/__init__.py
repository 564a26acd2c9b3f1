"""Compile and check scripts without a catalog file, network or Spark.

* `compiler`: Compile SQL text and facts to items and jobs as data.
* `lint`: Find the errors and likely errors of a script.
* `script_folder`: Find the errors of all scripts of a folder, which describe one catalog.
"""

from sinkql.program.compiler import CompiledItem as CompiledItem
from sinkql.program.compiler import Compiler as Compiler
from sinkql.program.compiler import Program as Program
from sinkql.program.compiler import compile_text as compile_text
