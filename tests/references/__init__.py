"""Slow loops written from the papers, to test the fast code against."""
