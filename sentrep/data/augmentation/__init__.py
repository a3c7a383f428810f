"""Making pairs from sentences: back-translation and paraphrases of a language model, resumable at any moment.

The modules are imported one by one: `backtranslation` with `translation` (transformers), `paraphrasing` with
`endpoint` (the package openai), both over `parts`.
"""
