"""The samplers' mathematics from the papers, as they print it and in double precision."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal


def batch_gaussian(
    rows: Tensor, noise: Tensor, use_mean: bool, use_std: bool, multiplied: bool, through: str
) -> Tensor:
    """The thesis's Gaussian negatives, entry by entry in the rows' graph.

    Args:
        rows: (N, D) anchors.
        noise: (M, D) standard normal.
        use_mean: around μ_z, or 0.
        use_std: with σ_z, or 1.
        multiplied: times Σ.
        through: what the gradient flows through: ``none``, ``covariance`` or ``all``.
    """
    size, width = rows.shape
    mean = [sum(rows[n, d] for n in range(size)) / size for d in range(width)]

    def sigma(d: int, e: int) -> Tensor:
        return sum((row[d] - mean[d]) * (row[e] - mean[e]) for row in rows) / (size - 1)  # type: ignore[return-value]

    drawn = []
    for line in noise:
        g = []
        for d in range(width):
            value = (mean[d] if use_mean else 0 * mean[d]) + (sigma(d, d).sqrt() if use_std else 1) * line[d]
            g.append(value if through == "all" else value.detach())
        if multiplied:
            g = [sum(g[e] * sigma(e, d) for e in range(width)) for d in range(width)]  # type: ignore[misc]
            g = g if through != "none" else [value.detach() for value in g]
        drawn.append(torch.stack(g))
    return torch.stack(drawn)


class StepwiseEM:
    """Stepwise EM with discounted *raw* moments: what the sampler keeps in centred form.

    Args:
        means: (K, D) first means.
        variances: (D,) variances of every component in the first E-step.
    """

    def __init__(self, means: Tensor, variances: Tensor, decay: float, floor: float, full: bool) -> None:
        self.decay, self.floor, self.full = decay, floor, full
        self.means, self.eye = means.double(), torch.eye(len(variances), dtype=torch.double)
        self.covariances = [torch.diag(variances.double())] * len(means)
        self.s0 = torch.zeros(len(means), dtype=torch.double)
        self.s1, self.s2 = 0 * self.means, 0 * torch.stack(self.covariances)

    def responsibilities(self, rows: Tensor) -> Tensor:
        """(N, K) posterior of the components given each row, by Bayes' rule."""
        prior = self.s0 / self.s0.sum() if self.s0.any() else torch.full_like(self.s0, 1 / len(self.s0))
        matrices = self.covariances if self.full else [torch.diag(matrix.diagonal()) for matrix in self.covariances]
        normals = [MultivariateNormal(mean, matrix) for mean, matrix in zip(self.means, matrices, strict=True)]
        return torch.stack([p.log() + x.log_prob(rows) for p, x in zip(prior, normals, strict=True)], 1).softmax(1)

    def update(self, rows: Tensor) -> None:
        rows = rows.double()
        posterior = self.responsibilities(rows)
        self.s0 = self.decay * self.s0 + posterior.sum(0)
        self.s1 = self.decay * self.s1 + posterior.T @ rows
        self.s2 = self.decay * self.s2 + torch.einsum("nk,nd,ne->kde", posterior, rows, rows)
        self.means = self.s1 / self.s0[:, None]
        centre = self.s1.sum(0) / self.s0.sum()
        overall = self.s2.sum(0) / self.s0.sum() - torch.outer(centre, centre)  # covariance of the whole mixture
        ridge = self.floor * overall.diagonal().mean() * self.eye
        self.covariances = [
            second / mass - torch.outer(mean, mean) + ridge
            for second, mass, mean in zip(self.s2, self.s0, self.means, strict=True)
        ]


def vae_bound(rows: Tensor, noise: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """Mean over the rows of −log p(x|z) + KL, up to a constant; one row at a time."""
    losses = []
    for x, epsilon in zip(rows, noise, strict=True):
        hidden = torch.relu(weights["encoder.weight"] @ x + weights["encoder.bias"])
        posterior = weights["posterior.weight"] @ hidden + weights["posterior.bias"]
        mean, deviation = posterior[: len(epsilon)], torch.exp(posterior[len(epsilon) :] / 2)
        prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
        divergence = torch.distributions.kl_divergence(torch.distributions.Normal(mean, deviation), prior).sum()
        losses.append(((x - vae_decode(mean + deviation * epsilon, weights)) ** 2).sum() / 2 + divergence)
    return torch.stack(losses).mean()


def vae_decode(z: Tensor, weights: dict[str, Tensor]) -> Tensor:
    hidden = torch.relu(weights["decoder.weight"] @ z + weights["decoder.bias"])
    return weights["output.weight"] @ hidden + weights["output.bias"]


def released_vae_loss(rows: Tensor, masks: list[Tensor], noise: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """The VAE of the thesis's code: one layer's output s as scale and as log-variance, one number at a time at the end.

    Args:
        rows: (N, D), as they are.
        masks: 0 or 1 of the encoder's layers (N, 400), (N, 100) and the decoder's (N, 400), or as wide as they are.
        noise: (N, 100) standard normal.
        weights: by layer.
    """
    squares, divergences = [], []
    for x, first, second, third, epsilon in zip(rows, *masks, noise, strict=True):
        hidden = torch.relu(weights["encoder.weight"] @ x + weights["encoder.bias"]) * first / 0.5
        hidden = torch.relu(weights["bottleneck.weight"] @ hidden + weights["bottleneck.bias"]) * second / 0.5
        mean = weights["mean.weight"] @ hidden + weights["mean.bias"]
        s = weights["spread.weight"] @ hidden + weights["spread.bias"]
        reconstruction = released_vae_decode(mean + s * epsilon, third, weights)
        squares += [(a - b) ** 2 for a, b in zip(x, reconstruction, strict=True)]
        terms = [1 + b - a**2 - torch.exp(b) for a, b in zip(mean, s, strict=True)]
        divergences.append(-0.5 * torch.stack(terms).sum())
    return torch.stack(squares).mean() + torch.stack(divergences).mean()


def released_vae_decode(z: Tensor, mask: Tensor, weights: dict[str, Tensor]) -> Tensor:
    hidden = torch.relu(weights["decoder.weight"] @ z + weights["decoder.bias"]) * mask / 0.5
    return weights["output.weight"] @ hidden + weights["output.bias"]


def mixed_negatives(keys: Tensor, partners: list[int], share: float) -> Tensor:
    """MixCSE's mixture of each row with its partner."""
    rows = keys / keys.norm(dim=1, keepdim=True)
    mixed = torch.stack([share * row + (1 - share) * rows[j] for row, j in zip(rows, partners, strict=True)])
    return mixed / mixed.norm(dim=1, keepdim=True)


def kept_hardest(drawn: Tensor, anchors: Tensor, share: float) -> Tensor:
    """The share of draws (M, D) of the largest cosine to any anchor, or of those of each anchor (N, k, D) to it."""

    def cosine(x: Tensor, y: Tensor) -> float:
        return torch.cosine_similarity(x.detach().double(), y.double(), dim=0).item()

    def chosen(rows: Tensor, near: Tensor) -> Tensor:
        ranked = sorted(range(len(rows)), key=lambda m: -max(cosine(rows[m], anchor) for anchor in near))
        return rows[sorted(ranked[: max(1, round(share * len(rows)))])]

    if drawn.ndim == 2:
        return chosen(drawn, anchors)
    return torch.stack([chosen(rows, anchor[None]) for rows, anchor in zip(drawn, anchors, strict=True)])


def dose(
    queries: Tensor,
    keys: Tensor,
    positives: list[int],
    drawn: list[Tensor],
    temperature: float,
    weights: Tensor | None = None,
    multiplied: bool = False,
) -> list[float]:
    """Each sampler's share of the softmax, mean over the queries.

    Args:
        queries: (N, D).
        keys: (K, D).
        positives: the columns of the queries' positives.
        drawn: of each sampler (M, D), for all queries, or (N, k, D), for each.
        temperature: τ.
        weights: (N, K + M + …) of the keys, then of all draws in this order, on the exponentials; None for all 1.
        multiplied: whether the weights multiply the logits.
    """
    shares = [0.0] * len(drawn)
    for i, query in enumerate(queries.detach().double()):
        columns = [(-1, key) for key in keys.detach().double()]
        for place, rows in enumerate(drawn):
            columns += [(place, row) for row in (rows if rows.ndim == 2 else rows[i]).detach().double()]
        terms = []
        for j, (_, column) in enumerate(columns):
            weight = 1.0 if weights is None or j == positives[i] else float(weights[i, j])
            logit = torch.cosine_similarity(query, column, dim=0).item() / temperature
            terms.append(math.exp(weight * logit) if multiplied else weight * math.exp(logit))
        for (place, _), term in zip(columns, terms, strict=True):
            if place >= 0:
                shares[place] += term / sum(terms) / len(queries)
    return shares


def hardness(anchors: Tensor, keys: Tensor, drawn: Tensor) -> tuple[float, float]:
    """Mean cosine of the pairs of an anchor and its draws, and the share above its cosine with every other key."""
    anchors, keys, drawn = (rows.detach().double() for rows in (anchors, keys, drawn))
    cosines, harder = [], []
    for i, anchor in enumerate(anchors):
        others = [torch.cosine_similarity(anchor, key, dim=0).item() for j, key in enumerate(keys) if j != i]
        for negative in drawn if drawn.ndim == 2 else drawn[i]:
            cosines.append(torch.cosine_similarity(anchor, negative, dim=0).item())
            harder.append(cosines[-1] > max(others))
    return sum(cosines) / len(cosines), sum(harder) / len(harder)
