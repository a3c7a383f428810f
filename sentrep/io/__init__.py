"""Disk: atomic files and locks, paths, what a stranger wrote."""
