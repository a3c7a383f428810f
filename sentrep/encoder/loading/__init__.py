"""From files to an encoder and back, in one direction: sources, settings, backbones, weights, `SentenceEncoder`."""
