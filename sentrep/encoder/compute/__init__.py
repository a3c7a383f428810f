"""Token ids to vectors: how a pass of the backbone is computed."""
