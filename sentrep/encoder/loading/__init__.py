"""From files to an encoder and back, in one direction: sources and folders, settings and weights, `SentenceEncoder`."""
