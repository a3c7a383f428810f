"""A Gaussian mixture that follows past outputs (the thesis)."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import torch
from torch import Tensor

from sentrep import checks
from sentrep.functional.similarity import at_least_float32
from sentrep.negatives.base import NegativeSampler, check_ratio, count, finite_rows
from sentrep.random import derive_seed, step_generator
from sentrep.types import EncoderSpec

_DEAD = 0.01  # share of its even part of the mass below which a component is moved elsewhere
_TINY = 1e-12


_Mixture = tuple[Tensor, Tensor, Tensor]
"""Masses (K,), means (K, D), and `_factor` of the covariances."""


class GaussianMixtureNegatives(NegativeSampler):
    """M draws from a Gaussian mixture of the outputs of past steps (thesis, "GMM sampling").

    The thesis says that the mixture is updated at each step with the outputs of previous steps, but not how. This class
    uses stepwise EM. One E-step per optimiser step gives the responsibilities r_nk of component k for anchor x_n. The
    discounted sums

        m_k ← d m_k + Σ_n r_nk,    with the means μ_k and scatters S_k (about μ_k) that go with them,

    are merged in centred form, to avoid cancellation; then π_k = m_k / Σ m and Σ_k = S_k / m_k + f I. The floor f is
    a share of the mean variance of the whole mixture. A component with less than 1 % of an equal share of the mass
    (all components at first) gets a random anchor as its mean, and the variances of the batch. Nothing is drawn before
    the first update. Non-finite anchors are replaced by other anchors of their batch (`finite_rows`).

    The thesis's code discards the mixture at each step and fits scikit-learn's mixture to the last 8 batches, including
    the current one, with 8 full components: ``window=8``. The device waits for this fit: for 512 rows, 0.4 s per step
    at width 384 and 1.3 s at width 768, on one core of a CPU.

    Args:
        components: K.
        covariance: ``"diag"``, or ``"full"``: a D×D matrix per component, which needs many more outputs than D.
        decay: d in (0, 1] of a step; 1 forgets nothing.
        variance_floor: f as a share of the mean variance, > 0.
        ratio: M as a multiple of the global batch.
        weight: λ ≥ 0.
        window: None for stepwise EM. A number of batches, the current one included, to fit
            `sklearn.mixture.GaussianMixture` to at each step, from k-means on; ``decay`` and ``variance_floor`` have no
            part in it. Nothing is drawn while there are fewer than K rows.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from sentrep.negatives import GaussianMixtureNegatives
        >>> sampler = GaussianMixtureNegatives(components=2)
        >>> sampler.build(SimpleNamespace(seed=0, embedding_dim=8, name=""), "gmm"); sampler.after_step(torch.eye(4, 8))
        >>> sampler.sample(torch.randn(4, 8), torch.randn(4, 8)).shape
        torch.Size([4, 8])
    """

    mass: Tensor
    """(K,) m."""
    mean: Tensor
    """(K, D) μ."""
    scatter: Tensor
    """(K, D) diagonals of S, or (K, D, D) S."""

    def __init__(
        self,
        components: int = 8,
        covariance: Literal["diag", "full"] = "diag",
        decay: float = 0.9,
        variance_floor: float = 0.01,
        ratio: float = 1.0,
        weight: float = 1.0,
        window: int | None = None,
    ) -> None:
        super().__init__(weight)
        checks.positive(self, variance_floor=variance_floor)
        checks.within(self, 0, 1, open_below=True, decay=decay)
        check_ratio(self, ratio)
        checks.at_least(self, 1, **checks.given(window=window))
        self.components = components
        self.covariance = covariance
        self.decay = decay
        self.variance_floor = variance_floor
        self.ratio = ratio
        self.window = window
        self._started = False
        self._stored: list[Tensor] = []

    def build(self, spec: EncoderSpec, stream: str) -> None:
        """Make room for K components, all without mass."""
        super().build(spec, stream)
        if self.window is not None:
            return
        width = spec.embedding_dim
        shape = (self.components, width) if self.covariance == "diag" else (self.components, width, width)
        self.register_buffer("mass", torch.zeros(self.components))
        self.register_buffer("mean", torch.zeros(self.components, width))
        self.register_buffer("scatter", torch.zeros(shape))

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """M draws (M, D); none before the first update, or with a window of fewer than K rows."""
        with torch.autocast(anchors.device.type, enabled=False):
            mixture = self._updated() if self.window is None else self._fitted(anchors)
            if mixture is None:
                return anchors.new_zeros(0, anchors.shape[1], dtype=torch.float32)
            mass, mean, factor = mixture
            drawn, generator = count(anchors, self.ratio), self.generator(anchors.device)
            component = torch.multinomial(mass, drawn, replacement=True, generator=generator)
            shape, place = (drawn, anchors.shape[1]), anchors.device
            noise = torch.randn(shape, generator=generator, device=place, dtype=torch.float32).to(mean.dtype)
            if self.covariance == "diag":
                return mean[component] + factor[component] * noise
            spread = factor @ noise.T  # (K, D, M): every component, then the drawn one
            return mean[component] + spread[component, :, torch.arange(drawn, device=place)]

    def after_step(self, anchors: Tensor) -> None:
        """One step of EM with the anchors, or their place in the window."""
        with torch.autocast(anchors.device.type, enabled=False):
            rows = finite_rows(anchors)
            if self.window is None:
                self._merge(rows, self._responsibilities(rows))
            else:
                stored = [*self._stored, rows]
                self._stored = stored[max(0, len(stored) + 1 - self.window) :]  # the current batch comes to them
        self._started = True

    def get_extra_state(self) -> dict[str, Any]:
        """Whether an update has been made, and the stored outputs of a window."""
        return {"started": self._started, "stored": self._stored}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take both from a checkpoint."""
        self._started, self._stored = state["started"], state["stored"]

    def _moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """m, μ and S in float32, where the module is kept in half precision too."""
        mass, mean, scatter = map(at_least_float32, (self.mass, self.mean, self.scatter))
        return mass, mean, scatter

    def _updated(self) -> _Mixture | None:
        """The mixture of stepwise EM."""
        if not self._started:
            return None
        mass, mean, scatter = self._moments()
        return mass, mean, _factor(self._covariance(torch.zeros_like(scatter)))

    def _fitted(self, anchors: Tensor) -> _Mixture | None:
        """scikit-learn's mixture of the window and the current batch."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture

        rows = torch.cat([finite_rows(anchors).cpu(), *(stored.cpu() for stored in self._stored)]).double()
        if len(rows) < max(2, self.components):
            return None
        seed = derive_seed(self.spec.seed, f"{self.stream}/fit", self.step) % 2**32
        model = GaussianMixture(self.components, covariance_type=self.covariance, random_state=seed)
        with warnings.catch_warnings():  # that it has not converged is nothing to say at every step
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows.numpy())
        mass, mean, covariance = map(torch.from_numpy, (model.weights_, model.means_, model.covariances_))
        factor = _factor(covariance)  # in float64: a covariance of few rows is singular but for 1e-6
        where, kind = anchors.device, torch.float32
        return mass.to(where, kind), mean.to(where, kind), factor.to(where, kind)

    def _responsibilities(self, rows: Tensor) -> Tensor:
        """E-step: (N, K), rows summing to 1; dead components are moved first."""
        mass, _, _ = self._moments()
        total = mass.sum()
        dead = mass <= _DEAD * total / self.components
        generator = step_generator(self.spec.seed, f"{self.stream}/fit", self.step, rows.device)
        order = torch.randperm(len(rows), generator=generator, device=rows.device)
        seeds = rows[order[torch.arange(self.components, device=rows.device) % len(rows)]]
        self.mean.copy_(torch.where(dead[:, None], seeds, self.mean))
        self.mass.masked_fill_(dead, 0.0)
        self.scatter.masked_fill_(dead.view(-1, *[1] * (self.scatter.ndim - 1)), 0.0)
        # for this E-step a moved component is as likely as any other and as wide as the batch
        prior = torch.where(dead, torch.where(total > 0, total, total + 1) / self.components, mass)
        variance = rows.var(0, correction=0)
        wide = variance if self.covariance == "diag" else variance.diag()
        density = _log_density(rows, at_least_float32(self.mean), self._covariance(wide.expand_as(self.scatter)))
        return torch.softmax(prior.log() + density, dim=1)

    def _merge(self, rows: Tensor, responsibilities: Tensor) -> None:
        """M-step: the batch's mass, means and scatters into the discounted ones (Chan et al.'s parallel update)."""
        mass = responsibilities.sum(0)
        mean = responsibilities.T @ rows / mass.clamp_min(_TINY)[:, None]
        centred = rows - mean[:, None]  # (K, N, D)
        weighted = responsibilities.T[..., None] * centred
        full = self.covariance == "full"
        scatter = weighted.mT @ centred if full else (weighted * centred).sum(1)
        old_mass, old_mean, old_scatter = self._moments()
        old = self.decay * old_mass
        share = mass / (old + mass).clamp_min(_TINY)
        shift = mean - old_mean
        between = shift[:, :, None] * shift[:, None] if full else shift.square()
        inner = (slice(None), *[None] * (scatter.ndim - 1))  # (K,) against (K, D) or (K, D, D)
        self.scatter.copy_(old_scatter.mul_(self.decay).add_(scatter + (old * share)[inner] * between))
        self.mean.copy_(old_mean + share[:, None] * shift)
        self.mass.copy_(old + mass)

    def _covariance(self, massless: Tensor) -> Tensor:
        """Σ_k with the floor, in the shape of `scatter`; from ``massless`` for components without mass."""
        mass, mean, scatter = self._moments()
        inner = (slice(None), *[None] * (scatter.ndim - 1))
        estimate = torch.where((mass > 0)[inner], scatter / mass.clamp_min(_TINY)[inner], massless)
        rounding = torch.finfo(self.scatter.dtype).eps  # rounding of the stored sums may leave no positive matrix
        floor = (self.variance_floor + rounding) * self._mean_variance() + _TINY
        if self.covariance == "full":
            return estimate + floor * torch.eye(mean.shape[1], device=floor.device, dtype=floor.dtype)
        return estimate + floor

    def _mean_variance(self) -> Tensor:
        """Variance of the whole mixture, within and between its components, averaged over the dimensions."""
        mass, mean, scatter = self._moments()
        share = mass / mass.sum().clamp_min(_TINY)
        between = (share[:, None] * (mean - share @ mean).square()).sum()
        diagonals = scatter if self.covariance == "diag" else scatter.diagonal(dim1=1, dim2=2)
        return (diagonals.sum() / mass.sum().clamp_min(_TINY) + between) / mean.shape[1]


def _factor(covariance: Tensor) -> Tensor:
    """F with Σ_k = F_k F_kᵀ: deviations (K, D) of variances, triangular matrices (K, D, D) of matrices."""
    return covariance.sqrt() if covariance.ndim == 2 else torch.linalg.cholesky_ex(covariance).L


def _log_density(rows: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """log N(x_n; μ_k, Σ_k) of rows (N, D), (N, K); ``covariance`` holds variances (K, D) or matrices (K, D, D)."""
    centred = rows - mean[:, None]  # (K, N, D)
    if covariance.ndim == 2:
        distance = (centred.square() / covariance[:, None]).sum(-1)
        log_determinant = covariance.log().sum(-1)
    else:
        factor = torch.linalg.cholesky_ex(covariance).L
        distance = torch.linalg.solve_triangular(factor, centred.mT, upper=False).square().sum(1)
        log_determinant = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(-1)
    return -0.5 * (distance.T + log_determinant + rows.shape[1] * math.log(2 * math.pi))
