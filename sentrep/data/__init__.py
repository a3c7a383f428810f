"""Corpora, batches and evaluation sets."""
