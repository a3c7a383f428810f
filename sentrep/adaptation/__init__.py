"""From a text to a model that is better on it, and knowing whether it is.

outcome        what an adaptation has come to
splitting      which documents are held out, to choose by and to judge by
preparation    from documents to the files that training, choice and judgement read
pairs          queries and passages from the structure of documents
mining         hard negatives, found by the model that training starts from
interpolation  weights between the start and the end of training
verdict        whether the adapted model is better, and how sure that is
account        what the run has left: its curve and its settings
"""
