"""`shoal demo`: the whole product on one machine, each part as the program that a user would start."""
