"""Who may use the API of the fleet."""
