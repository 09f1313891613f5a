"""What is known of exchanges, logged and counted."""
