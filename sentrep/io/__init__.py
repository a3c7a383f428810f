"""Disk and terminal: atomic files and locks, paths, what a stranger wrote made harmless."""
