"""Evaluation sets.

scored_pairs              sentence pairs with a graded similarity: one similarity set
sts, transfer, senteval   similarity sets and transfer tasks; where SentEval's folder has them
labelled                  texts with labels: one transfer task
"""
