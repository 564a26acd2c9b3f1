"""One CREATE statement → its item."""
