"""Real servers and readers that tests share."""
