"""What users combine: the stock recipe with each light option, and with every pair of the heavy ones in bf16.

Each combination trains: all steps made, weights finite and moved, the best model exported and readable.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from sentrep import SentenceEncoder
from sentrep.cli import main
from support import forked_ranks, free_ports

STOCK = str(Path(__file__).resolve().parents[2] / "configs" / "simcse" / "bert-base.yaml")
BASE = "--model.optimizer.base_optimizer torch.optim.AdamW --model.optimizer.base_optimizer.fused true"

HEAVY = {
    "norm": "--trainer.gradient_clip_val 0.5",
    "value": "--trainer.gradient_clip_val 0.01 --trainer.gradient_clip_algorithm value",
    "accumulation": "--trainer.accumulate_grad_batches 2",
    "SAM": f"--model.optimizer SAM {BASE}",
    "AWP": f"--model.optimizer AdversarialWeightPerturbation {BASE}",
    "GradCache": "--model.encoder.compute.rows_at_once 3",
    "padded": "--model.encoder.compute.layout padded",
    "compile": "--model.encoder.compute.compile true",
}
"""Those that change how a step is made; `test_combinations` has them on one process."""

TOGETHER = [
    ("norm", "SAM", "accumulation", "GradCache"),
    ("norm", "AWP", "padded", "compile"),
    ("value", "SAM", "padded", "compile"),
    ("value", "AWP", "accumulation", "GradCache"),
    ("accumulation", "GradCache", "padded", "compile"),
]
"""Every pair of them but the two values of one option, norm with value and SAM with AWP."""

LIGHT = {
    "guard that skips, worker, inference_mode": "--guard.action skip --data.num_workers 1 "
    "--trainer.inference_mode false",
    "no guard, epochs": "--guard null --trainer.max_steps -1 --trainer.max_epochs 1 --trainer.val_check_interval 1.0",
    "time alone": "--trainer.max_steps -1 --trainer.max_time 00:00:00:01 --trainer.max_epochs -1 "
    "--model.scheduler constant",
}
"""Those that leave a step as it is, and that the tests of training and of the command line do not have."""


def words(options: str, precision: str) -> list[str]:
    return ["fit", "-c", STOCK, "--data.train", "corpus.txt", "--trainer.precision", precision, *options.split()]


def assert_trained(folder: Path) -> None:
    """Every checkpoint is whole, its weights are finite, and the exported model encodes."""
    for path in folder.rglob("*.ckpt"):
        state = torch.load(path, weights_only=True)["state_dict"]
        assert all(value.isfinite().all() for value in state.values() if isinstance(value, torch.Tensor))
    for model in folder.rglob("model/modules.json"):
        vectors = SentenceEncoder.from_pretrained(model.parent).encode(["a sentence", "another"])
        assert torch.as_tensor(vectors).isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_the_stock_recipe_trains_with_each_light_option(
    name: str, tiny: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main([*words(LIGHT[name], "32-true"), *tiny])
    assert status == 0, capsys.readouterr().err
    assert_trained(tmp_path)
    assert list(tmp_path.rglob("last.ckpt"))
    assert list(tmp_path.rglob("model/modules.json"))


def combinations_on_processes(ports: list[int], commands: dict[str, list[str]]) -> int:
    """On each process: every combination, one after the other, and their statuses."""
    found = {}
    with torch.compiler.set_stance("default", force_backend="eager"):
        for port, (name, command) in zip(ports, commands.items(), strict=True):
            os.environ["MASTER_PORT"] = str(port)  # a group for each
            os.environ.pop("PL_GLOBAL_SEED", None)
            found[name] = main(command)
    Path(f"statuses-{os.environ['RANK']}.json").write_text(json.dumps(found))
    return 0


@pytest.mark.slow
def test_the_heavy_options_go_with_two_processes(tiny: list[str], tmp_path: Path) -> None:
    strategy = ["--trainer.devices", "2", "--trainer.strategy", "ddp", "--data.batch_size", "2"]
    commands: dict[str, Any] = {
        name: [*words("", "bf16-mixed"), *tiny, *options.split(), *strategy, "--trainer.logger.name", name]
        for name, options in {
            "streaming": "--data.streaming true",
            **{"-".join(names): " ".join(HEAVY[each] for each in names) for names in TOGETHER},
        }.items()
    }
    processes = forked_ranks(combinations_on_processes, free_ports(len(commands)), commands)
    for rank, process in enumerate(processes):
        process.join(300)
        process.kill()
        said = Path(f"said-{rank}.txt").read_text()[-3000:]
        assert process.exitcode == 0, said
        assert json.loads(Path(f"statuses-{rank}.json").read_text()) == dict.fromkeys(commands, 0), said
    assert len(list(tmp_path.rglob("last.ckpt"))) == len(commands)
    assert_trained(tmp_path)
