"""What a monitoring system is told of the fleet: numbers over all devices, in Prometheus' formats."""
