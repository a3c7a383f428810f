"""The crash suite: runs are killed, starved of disk and given damaged files, and must end as if nothing had happened.

    python benchmarks/faults.py --kills 20 --kills-of-others 10 --json benchmarks/results/faults.json

Each trial starts a small ``sentrep fit`` in a folder of its own, does its harm, goes on with ``--ckpt_path last`` until
the run has finished, and compares a hash of all final weights (encoder, samplers and their extra state, decoder) and of
the optimiser's state with the uninterrupted run's. Memory bank, Gaussian mixture, refined noise and denoising are
active. ``kill -9`` comes at moments spread at random over the wall time of the run, but for its last tenth; the
other faults come when the run has written a few checkpoints.

Then three fits are started at once, whose three folders must be complete; ``sentrep encode`` into parts and
``sentrep compare`` are killed and run again, and what they leave must be that of the uninterrupted command, byte for
byte (of the comparison: its table, and every cosine).

The processes are forked from one that has imported everything, so the time of a run is that of its own work (the
trainers of a comparison are not). Linux or macOS; the full disk needs root (it mounts a small file system), and is left
out otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from fault_commands import kill_compare, kill_encode, together
from fault_kinds import cut, cut_cache, damage, delete_cache, flip, full_disk, send, unplug
from fault_runs import Trial, fingerprint, finish, run, workplace


def main() -> None:
    """Run the suite; the exit status is 1 where a run did not end as the uninterrupted one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20, help="how often to kill -9 a fit")
    parser.add_argument("--kills-of-others", type=int, default=10, help="how often a comparison, and an encode")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--only", nargs="+", metavar="FAULT", help="of the other faults, only those with these names")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        trials = _run_all(Path(root), options)
    print(_table(trials))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(trial) for trial in trials], indent=1) + "\n", encoding="utf-8")
    if not all(trial.identical for trial in trials):
        sys.exit(1)


def _run_all(root: Path, options: argparse.Namespace) -> list[Trial]:
    """The reference, then every fault."""
    begun = time.monotonic()
    reference = workplace(root / "reference")
    status = run(reference)
    seconds = time.monotonic() - begun
    if status:
        sys.exit(f"the uninterrupted run ended with status {status}: {(reference / 'log.txt').read_text()[-2000:]}")
    wanted = fingerprint(reference)
    print(f"uninterrupted: {seconds:.1f} s", file=sys.stderr, flush=True)
    moments = random.Random(options.seed)
    faults: list[tuple[str, Callable[[Path], tuple[str, list[int]]]]] = []
    for _ in range(options.kills):
        moment = moments.uniform(0, 0.9 * seconds)  # later it may have ended
        faults.append(("kill -9", lambda place, moment=moment: send(place, signal.SIGKILL, moment)))
    faults += [
        ("SIGTERM", lambda place: send(place, signal.SIGTERM)),
        ("SIGINT", lambda place: send(place, signal.SIGINT)),
        ("truncated checkpoint", lambda place: damage(place, cut)),
        ("bit-flipped checkpoint", lambda place: damage(place, flip)),
        ("cache folder deleted", lambda place: damage(place, delete_cache)),
        ("cache file cut", lambda place: damage(place, cut_cache)),
        ("cache folder gone in the run", unplug),
    ]
    if os.geteuid() == 0:
        faults.append(("full disk", full_disk))
    if options.only:
        faults = [(name, harm) for name, harm in faults if name == "kill -9" or name in options.only]
    trials = []
    for number, (fault, harm) in enumerate(faults):
        place = workplace(root / str(number))
        detail, statuses = harm(place)
        statuses += finish(place)
        trials.append(Trial(fault, detail, statuses, statuses[-1] == 0 and fingerprint(place) == wanted))
        print(f"{fault}, {detail}: {statuses}, identical: {trials[-1].identical}", file=sys.stderr, flush=True)
        if trials[-1].identical:
            shutil.rmtree(place)
        else:
            print((place / "log.txt").read_text()[-3000:], file=sys.stderr, flush=True)
    trials += together(root, wanted)
    (model,) = reference.rglob("model")
    trials += kill_encode(root, options.kills_of_others, moments, model)
    return trials + kill_compare(root, options.kills_of_others, moments)


def _table(trials: list[Trial]) -> str:
    lines = ["| fault | detail | exit statuses | bit-identical end |", "| --- | --- | --- | --- |"]
    for trial in trials:
        verdict = "yes" if trial.identical else "NO"
        lines.append(f"| {trial.fault} | {trial.detail} | {', '.join(map(str, trial.statuses))} | {verdict} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
