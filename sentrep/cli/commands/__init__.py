"""The commands that train nothing by themselves, a light file each: signature, docstring, and imports where it works.

compare (compare_runs, seeded_runs)     backtranslate, encode, evaluate, export
models, maps                            what several of them need
"""
