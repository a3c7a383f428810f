"""The commands that train nothing by themselves, a light file each: signature, docstring, and imports where it works.

compare (compare_runs, seeded_runs)     encode, evaluate, export
backtranslate, paraphrase (augmentation)
models, maps                            what several of them need
"""
