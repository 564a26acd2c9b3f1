"""The systems that SinkQL reads and writes, a folder each: `aws, files, generator, iceberg`.

Each folder's module names its `connector`; the registry finds them by listing this package.
"""
