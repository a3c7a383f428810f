"""Rows to training batches.

sampler           which rows form which batch on which process, and where a run stands in them
distinct_batches  batches without a repeated sentence
streaming         the same of text that is read while training
collate           rows of token ids to padded tensors
loaders           training batches that resume anywhere, evaluation sets, sentences to encode
"""
