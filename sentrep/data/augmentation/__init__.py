"""Back-translation: pairs from sentences, in parts.

The modules are imported one by one: `translation` has the models (transformers), `backtranslation` goes there and back,
and `finished_pairs` keeps the pairs.
"""
