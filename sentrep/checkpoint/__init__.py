"""Checkpoints: their content, reading and writing, resuming, rebuilding a module, and trust."""
