"""What devices send from their outboxes: answers, events, counts; each row stored once."""
