"""From a text to a model that is better on it, with a verdict that needs no labels.

splitting      the documents that are held out, to choose by and to judge by
preparation    from documents to the files that training, choice and judgement read
pairs          queries and passages from the structure of documents
questions      questions about passages, asked of a language model
round_trip     the condition on which questions are kept
mining         hard negatives, found by the untouched model
interpolation  weights between the start and the end of training
words          candidates that match words beside meaning
choice         the best of the candidates
verdict        whether the adapted model is better, with intervals
outcome        the numbers of an adaptation and of its run
neighbours     the nearest texts of a few sentences, before and after
report         the page of results
"""
