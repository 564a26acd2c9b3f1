"""Object store.

* `s3`: An exception of boto3 → one coded error with its cause, at the option that causes it.
* `s3`: boto3, for whoever signs requests with keys of AWS: its loggers → silence below INFO; the error without it.
* `objects`: Objects of a bucket, as logs and state need them: put where there is none, or in the place of one with a
  known etag.
* `store`: Keys that run out → keys that are valid now: asked for anew once half of their life is over.
* `s3`: An object store's keys → a client of S3; what its requests raise → one coded error.
* `s3`: An object store's keys → a session of botocore that signs with those that hold at each request.
* `store`: What an object store's connection gives to others: the properties that file systems and table libraries
  take.
"""
