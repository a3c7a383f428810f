"""What `SentRepModule` hands over: its arguments, its parameter groups, its parts on many devices."""
