"""Making pairs from sentences, in parts: back-translation and answers of a language model.

The modules are imported one by one: `backtranslation` with `translation` (transformers), `language_model` (the package
openai) with a `prompt`; `filters` says which rewritings are fit, and `finished_pairs` keeps them.
"""
