"""The systems that SinkQL reads and writes, a folder each.

Supported are `aws`, `files`, `generator`, `iceberg`; the others are declared, and wait.

Each folder's module names its `connector`; the registry finds them by listing this package.
"""
