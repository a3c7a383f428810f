"""Rows to training batches.

sampler           which rows form which batch on which process, and the place of a run
distinct_batches  batches without a repeated sentence
streaming         the same of text that is read while training
collate           rows of token ids to padded tensors
loaders           training batches that resume anywhere, evaluation sets, sentences to encode
"""
