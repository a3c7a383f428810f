"""Making pairs from sentences: back-translation and answers of a language model, resumable at any moment.

The modules are imported one by one: `backtranslation` with `translation` (transformers), `asking` with `endpoint` (the
package openai) and a `prompt`, both over `parts`; `paraphrasing` says which paraphrases are fit.
"""
