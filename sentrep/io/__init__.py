"""Disk: atomic files and locks, paths, untrusted model folders; and rows in lists of a fixed length."""
