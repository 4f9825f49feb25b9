"""What boards found out about their engines, and what another board of the same kind is told of it."""
