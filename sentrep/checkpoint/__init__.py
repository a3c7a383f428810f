"""Checkpoints: what is inside, reading and writing, going on, building a module again, whom to trust."""
