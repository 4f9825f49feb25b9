"""Key-encryption keys: what the fleet's secrets are wrapped under, outside database and back-ups."""
