"""Pages for people: the live status of the fleet and the list of its API. No script or style from elsewhere."""
