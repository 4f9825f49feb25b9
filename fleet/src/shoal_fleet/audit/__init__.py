"""Who did what, when: a log that can only grow."""
