"""FILES sources: a folder of JSON lines or CSV, each file once, by name; new files are picked up as they come.

* `plan`: the statement → typed columns and the reader's options.
* `listing`: a folder → its files, and the durable log of those that were read.
* `reader`: offsets → splits → rows.
* `json_lines`, `csv_rows`, `convert`: bytes → Arrow columns, with the rows that do not decode told apart.
"""

from sinkql import physical
from sinkql.connector.plan import Connector, SourceKind
from sinkql.connector.stream import Context, Reader
from sinkql.connectors.files.plan import FilesOptions, FilesSourceOptions, plan


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.files.reader import FilesReader  # pyarrow, only where a job runs

    return FilesReader.of(read, context)


connector = Connector(
    "files", sources=(SourceKind("FILES", plan, _open_reader, takes=FilesOptions, takes_with=FilesSourceOptions),)
)
