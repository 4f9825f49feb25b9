"""Moving a set of devices to a release, and knowing from their reports how far each one is."""
