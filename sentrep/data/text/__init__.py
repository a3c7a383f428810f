"""Text: where it comes from, how its rows are read, kept and streamed."""
