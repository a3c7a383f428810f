"""Sets to score and judge by: STS, transfer, retrieval, held-out sentences; what of them is in the training text."""
