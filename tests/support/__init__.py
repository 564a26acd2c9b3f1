"""Real servers, readers and other helpers that several test folders share."""
