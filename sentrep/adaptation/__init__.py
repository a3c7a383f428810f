"""From a text to a model that is better on it, and knowing whether it is.

splitting      which documents are held out, to choose by and to judge by
preparation    from documents to the files that training, choice and judgement read
pairs          queries and passages from the structure of documents
questions      questions about passages, asked of a language model
round_trip     which of them are kept
mining         hard negatives, found by the model that training starts from
interpolation  weights between the start and the end of training
words          candidates that match words beside meaning
choice         the best of the candidates
verdict        whether the adapted model is better, and how sure that is
outcome        the numbers of an adaptation and of its run
neighbours     the nearest passages of a few sentences, and maps, before and after
report         the page that shows it all
"""
