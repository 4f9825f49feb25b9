"""The boards of the fleet: who they are, and what they last said of themselves."""
