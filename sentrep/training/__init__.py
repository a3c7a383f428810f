"""What `SentRepModule` hands over: the checks of its arguments, its parameter groups, its settings for loggers."""
