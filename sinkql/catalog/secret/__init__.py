"""Secrets: their stored form, and their values at the time of use.

* `value`: Types that do not print their value.
* `cipher`: Encrypt and decrypt secrets and the secret literals of statements.
* `providers`: Resolve references to secrets in the environment, files, keyrings, Vault and AWS.
* `hash_key`: The catalog's secret key of row hashes.
"""
