"""Clients of object stores.

* `store`: The interface of an object-store connection, and credentials that are renewed before they expire.
* `s3`: Create clients and sessions of S3 from credentials, and convert the errors of requests to coded errors.
* `objects`: Read, write and list the objects of a bucket, with conditional writes for logs and state.
"""
