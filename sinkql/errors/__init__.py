"""Errors and notices as a user sees them: a code, a message, the position in the SQL, detail and hint.

* `error`: The exceptions and notices, their text and JSON, and errors of full disks.
* `code`: The declaration of an error code: family, exit code, cause, cure.
* `codes`: All error codes, a module a family.
* `span`: A span of a script, and the source line with a caret.
* `redact`: Find secrets in URLs, which no error shows.
* `terminal_text`: Replace control characters, so that text is safe for a terminal.
"""

from sinkql.errors.code import Code as Code
from sinkql.errors.code import Family as Family
from sinkql.errors.error import CrowdedError as CrowdedError
from sinkql.errors.error import DamagedFileError as DamagedFileError
from sinkql.errors.error import DroppedTableError as DroppedTableError
from sinkql.errors.error import EndlessError as EndlessError
from sinkql.errors.error import FencedError as FencedError
from sinkql.errors.error import GoneError as GoneError
from sinkql.errors.error import InvalidFileError as InvalidFileError
from sinkql.errors.error import LateError as LateError
from sinkql.errors.error import LeaseHeldError as LeaseHeldError
from sinkql.errors.error import LeaseLostError as LeaseLostError
from sinkql.errors.error import LostChangesError as LostChangesError
from sinkql.errors.error import LostIndexError as LostIndexError
from sinkql.errors.error import LostPositionError as LostPositionError
from sinkql.errors.error import LostStateError as LostStateError
from sinkql.errors.error import MissingColumnError as MissingColumnError
from sinkql.errors.error import MissingError as MissingError
from sinkql.errors.error import NoCatalogError as NoCatalogError
from sinkql.errors.error import NoFormError as NoFormError
from sinkql.errors.error import Notice as Notice
from sinkql.errors.error import SharedKeyError as SharedKeyError
from sinkql.errors.error import SinkqlError as SinkqlError
from sinkql.errors.error import TableError as TableError
from sinkql.errors.error import TakenNameError as TakenNameError
from sinkql.errors.error import UnaskedError as UnaskedError
from sinkql.errors.error import UnclosedError as UnclosedError
from sinkql.errors.error import UnexpectedCharacterError as UnexpectedCharacterError
from sinkql.errors.error import UnexpectedWordError as UnexpectedWordError
from sinkql.errors.error import UnfitNameError as UnfitNameError
from sinkql.errors.error import UnfitTableError as UnfitTableError
from sinkql.errors.error import UnforeseenError as UnforeseenError
from sinkql.errors.error import UnknownNameError as UnknownNameError
from sinkql.errors.error import as_data as as_data
from sinkql.errors.error import as_disk_full as as_disk_full
from sinkql.errors.error import disk_full as disk_full
from sinkql.errors.error import error_codes as error_codes
from sinkql.errors.error import error_in as error_in
from sinkql.errors.error import from_data as from_data
from sinkql.errors.error import in_other_case as in_other_case
from sinkql.errors.error import line_of as line_of
from sinkql.errors.error import nearest as nearest
from sinkql.errors.error import one_of as one_of
from sinkql.errors.error import temporary_folder_error as temporary_folder_error
from sinkql.errors.error import too_deep as too_deep
from sinkql.errors.span import Span as Span
from sinkql.errors.span import line_and_column as line_and_column
from sinkql.errors.terminal_text import for_json as for_json
from sinkql.errors.terminal_text import for_terminal as for_terminal
