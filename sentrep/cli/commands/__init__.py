"""The commands that train nothing by themselves, a light file each: signature, docstring, and imports where it works.

adapt (adapt_steps, adapt_folder)                    encode, evaluate, export, plot, data, doctor
compare (compare_runs, seeded_runs)                  backtranslate, paraphrase, questions (augmentation)
models, maps                                         what several of them need
"""
