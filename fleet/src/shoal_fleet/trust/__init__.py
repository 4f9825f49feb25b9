"""The signed metadata (TUF) by which boards know a release of the publisher from any other bytes."""
