"""Disk: atomic files and locks, paths, what a stranger wrote; and rows in lists of a fixed length."""
