"""Text: from wherever it lies to rows of sentences, and to token ids.

locations     opening files, addresses and data sets of the Hub
lines         lines of bounded length
tables, cells rows of one txt, csv, tsv, jsonl or parquet file; what a cell may hold
text_sources  what an entry of ``data.train`` names: files, a saved data set, shards of the Hub, the toy
memory        texts, pairs, data sets and data frames that a program holds
corpus        all of them as one stream of rows
pairing       a corpus joined with positives from another file
cache         a corpus tokenised once, kept in a memory-mapped file
fingerprints  telling two texts apart
shard         one process's share, where processes work apart
"""
