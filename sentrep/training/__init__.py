"""Helpers of `SentRepModule`: checks of its arguments, its parameter groups, its settings for loggers."""
