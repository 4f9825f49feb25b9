"""How a device gets its next certificate, with no person near it."""
