"""Text: from wherever it lies to rows of sentences, and to token ids.

locations     opening files and addresses
compressed    gzip, bzip2, xz, zstandard and zip files
formats       blocks of rows of one opened file
tables        a txt, csv, tsv, jsonl or parquet file, and its rows
cells         choice of columns; allowed content of a cell
memory        data sets that are not files: texts that a program holds, saved folders, the Hub, the toy
corpus        what ``data.train`` names, as one stream of rows
pairing       positives from another file, found by sentence
tokenized     a corpus tokenised once, kept in a memory-mapped file
fingerprints  telling two texts apart
"""
