"""Releases: their sealed files, and the content keys that came with them."""
