"""The fleet's own Mosquitto: its settings, its files and its process."""
