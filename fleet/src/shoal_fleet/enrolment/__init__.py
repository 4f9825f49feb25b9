"""How a board becomes a device of the fleet."""
