"""Our objectives in the training loops of other libraries."""
