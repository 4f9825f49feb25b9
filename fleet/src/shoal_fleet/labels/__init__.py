"""What people write on devices, to tell them apart."""
