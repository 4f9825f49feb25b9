"""The fleet's own connection to the broker, and what happens to each message that comes over it."""
