"""A call and its arguments → an entry of `logical.function`'s list.

* `call`: names that are known, volatile or not supported; the overload that takes the arguments by their types.
* `argument`: how many arguments, of which types, and which must be constants.
* `number`, `text`, `text`, `time`, `json`, `condition`: calls that check more than that, a family a file.
"""
