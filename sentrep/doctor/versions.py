"""Installed packages against the bounds that sentrep declares."""

from __future__ import annotations

import importlib.metadata

from packaging.requirements import Requirement

from sentrep.doctor.outcome import Outcome

_REMEDY = "install with the tested versions: pip install -c constraints.txt -e . (from the repository)"


def check() -> Outcome:
    """Every required package, and every optional one that is installed."""
    try:
        requirements = [Requirement(line) for line in importlib.metadata.requires("sentrep") or []]
    except importlib.metadata.PackageNotFoundError:
        return Outcome("versions", False, "sentrep is not installed as a package", "as declared", _REMEDY)
    wrong = [complaint for requirement in requirements if (complaint := _complaint(requirement))]
    return Outcome(
        "versions",
        not wrong,
        "; ".join(wrong) or f"{len(requirements)} bounds hold, torch {importlib.metadata.version('torch')}",
        "as declared",
        _REMEDY,
    )


def _complaint(requirement: Requirement) -> str | None:
    optional = requirement.marker is not None and "extra" in str(requirement.marker)
    if requirement.marker is not None and not optional and not requirement.marker.evaluate():
        return None
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return None if optional else f"{requirement.name} is missing"
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"{requirement.name} {version}, wanted {requirement.specifier}"
