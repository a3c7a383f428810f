"""How hard drawn negatives are: their cosine to the anchors, and the choice of the hardest."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep.functional.similarity import cosine_similarity_matrix, unit
from sentrep.functional.sum_in_chunks import rows_at_once


@torch.no_grad()
def hardness(
    anchors: Tensor, keys: Tensor, own: Tensor, negatives: Tensor, row_negatives: Tensor
) -> tuple[Tensor, Tensor]:
    """Measure how similar drawn negatives are to the anchors, beside the other sentences of the batch.

    Args:
        anchors: (B, D).
        keys: (N, D) vectors of the sentences of the batch.
        own: (B,) int64, the row of ``keys`` that is the anchor's own sentence.
        negatives: (M, D) of all anchors.
        row_negatives: (B, k, D) of each anchor alone; M + k is at least 1.

    Returns:
        Two scalars, over all pairs of an anchor and one of its drawn negatives: the mean cosine, and the share of pairs
        whose cosine is above the anchor's cosine with every key but its own (1 without other keys).

    Examples:
        >>> anchors, nothing = torch.eye(2), torch.zeros(2, 0, 2)
        >>> hardness(anchors, anchors, torch.arange(2), torch.tensor([[3.0, 0.0]]), nothing)
        (tensor(0.5000), tensor(0.5000))
    """
    with torch.autocast(anchors.device.type, enabled=False):
        keys, negatives = unit(keys), unit(negatives)

        def sums(anchors: Tensor, own: Tensor, row_negatives: Tensor) -> tuple[Tensor, Tensor]:
            hardest = (anchors @ keys.T).scatter(1, own[:, None], -torch.inf).amax(1, keepdim=True)
            of_each = (row_negatives @ anchors[:, :, None]).squeeze(2)
            cosines = torch.cat([anchors @ negatives.T, of_each], dim=1)
            return cosines.sum(), (cosines > hardest).sum()

        drawn = len(negatives) + row_negatives.shape[1]
        rows = (unit(anchors), own, unit(row_negatives))
        groups = zip(*(part.split(rows_at_once(len(keys) + drawn)) for part in rows), strict=True)
        total, harder = (torch.stack(parts).sum() for parts in zip(*(sums(*group) for group in groups), strict=True))
        return total / (len(anchors) * drawn), harder / (len(anchors) * drawn)


def hardest(negatives: Tensor, anchors: Tensor, share: float) -> Tensor:
    """Keep the share of the negatives that are the most similar to an anchor, in the order that they have.

    Their number depends on shapes alone, so an accelerator does not wait for it.

    Args:
        negatives: (M, D) of all anchors, ranked by their largest cosine with any anchor; or (N, k, D), ranked by the
            cosine with the one anchor that they belong to.
        anchors: (N, D).
        share: in (0, 1] of M, or of k; rounded, at least one.

    Returns:
        (M', D) or (N, k', D), with the gradient of ``negatives``.

    Examples:
        >>> hardest(torch.tensor([[0.0, 1.0], [1.0, 0.1], [-1.0, 0.0], [2.0, 0.0]]), torch.tensor([[1.0, 0.0]]), 0.5)
        tensor([[1.0000, 0.1000],
                [2.0000, 0.0000]])
    """
    drawn = negatives.shape[-2]
    kept = min(drawn, max(1, round(share * drawn)))
    if kept == drawn:
        return negatives
    with torch.no_grad(), torch.autocast(anchors.device.type, enabled=False):
        if negatives.ndim == 2:
            parts = negatives.split(rows_at_once(len(anchors)))
            cosine = torch.cat([cosine_similarity_matrix(part, anchors).amax(1) for part in parts])
        else:
            cosine = (unit(negatives) @ unit(anchors)[:, :, None]).squeeze(2)
        chosen = cosine.topk(kept, dim=-1).indices.sort(dim=-1).values
    return torch.take_along_dim(negatives, chosen[..., None], dim=-2)
