"""Check the documented promises of training on this machine."""

from sentrep.doctor.diagnosis import CHECKS, diagnose
from sentrep.doctor.outcome import Outcome, report
from sentrep.doctor.subject import Subject

__all__ = ["CHECKS", "Outcome", "Subject", "diagnose", "report"]
