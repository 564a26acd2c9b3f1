"""Revisions 0001, 0002, …: the number is the `user_version` of the file after the step."""
