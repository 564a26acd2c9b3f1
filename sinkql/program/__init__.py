"""A script → what it means, with no catalog file, no network and no Spark.

* `compiler`: SQL text and facts to items and jobs, as data.
* `lint`: a script to all that is wrong with it, and what may turn out to be.
* `script_folder`: the scripts of a folder to the same, as one catalog.
"""

from sinkql.program.compiler import CompiledItem as CompiledItem
from sinkql.program.compiler import Compiler as Compiler
from sinkql.program.compiler import Program as Program
from sinkql.program.compiler import compile_text as compile_text
