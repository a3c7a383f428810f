"""The clock of a training loop: optimiser steps behind the warm-up, and where their time goes."""

from __future__ import annotations

import time
from typing import Any

import machine
from harness import PROCESSOR, Job


class Clock:
    """Times optimiser steps behind the first ``warmup`` ones, and profiles them where asked to."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.warmup, self.last = job.settings["warmup"], job.settings["warmup"] + job.settings["steps"]
        self.step, self.start, self.end, self.processor = 0, 0.0, 0.0, 0.0
        self.profiler: Any = None

    def tick(self) -> None:
        """An optimiser step is done."""
        self.step += 1
        if self.step == self.last:
            self.end, self.processor = machine.now(self.job.device), time.process_time() - self.processor
            if self.profiler is not None:
                self.profiler.stop()
        if self.step == self.warmup:
            if self.job.settings.get("profile"):
                self.profiler = _profiler(self.job.device)
                self.profiler.start()
            self.start, self.processor = machine.now(self.job.device), time.process_time()

    def report(self, first_loss: float, before: float) -> dict[str, Any]:
        """What a measurement tells."""
        sentences = (self.last - self.warmup) * self.job.setting["batch"]
        profile = [] if self.profiler is None else top_operations(self.profiler, self.job.device)
        return {
            "sentences_per_second": sentences / (self.end - self.start), "first_loss": first_loss,
            "before_memory_mib": before, "profile": profile, "more": {PROCESSOR: 1000 * self.processor / sentences},
        }  # fmt: skip


def _profiler(device: str) -> Any:
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    return profile(activities=activities, acc_events=True)


def top_operations(profiler: Any, device: str, count: int = 15) -> list[dict[str, Any]]:
    """The operations (kernels on a GPU) with the most time of their own: name, share of all, calls."""
    attribute = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    events = profiler.key_averages()
    if device == "cuda":  # the time of a kernel also stands at the operation that launched it
        events = [event for event in events if "cuda" in str(event.device_type).lower()]
    total = sum(getattr(event, attribute) for event in events) or 1
    largest = sorted(events, key=lambda event: -getattr(event, attribute))[:count]
    return [
        {"operation": event.key, "share": getattr(event, attribute) / total, "calls": event.count} for event in largest
    ]
