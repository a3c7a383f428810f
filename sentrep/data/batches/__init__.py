"""Rows to training batches: order, collation, loaders."""
