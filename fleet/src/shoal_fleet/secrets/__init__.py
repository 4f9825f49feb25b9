"""Secrets of a device's configuration, sealed to it: the fleet passes them on and can't read them."""
