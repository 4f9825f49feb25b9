"""Exposures: the content keys that a device which is shut out once held."""
