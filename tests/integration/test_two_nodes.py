"""Two nodes on this machine: torchrun's agents with node ranks of their own, joined over loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sentrep.cli import main
from support import free_ports, toy_sentences

pytestmark = pytest.mark.slow
PATIENCE = 240
STEPS = 4


def on_two_nodes(*words: str) -> None:
    """`sentrep` on two nodes of one process each; both must end with status 0."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1"]
    launch += ["--master_addr", "127.0.0.1", "--master_port", str(*free_ports(1))]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else dict(os.environ)
    nodes = [
        subprocess.Popen(
            [*launch, "--node_rank", str(node), "-m", "sentrep", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        for node in range(2)
    ]
    try:
        outputs = [node.communicate(timeout=PATIENCE)[0].decode() for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    for node, output in zip(nodes, outputs, strict=True):
        assert node.returncode == 0, output


HOW = ["--model.encoder.dropout=0", "--model.optimizer=torch.optim.SGD", "--model.optimizer.lr=0.1"]


def fit_words(name: str, batch_size: int, *more: str) -> list[str]:
    words = ["fit", "-c", "run.yaml", *HOW, "--data.train=pairs.csv", f"--trainer.max_steps={STEPS}"]
    return [*words, f"--data.batch_size={batch_size}", f"--trainer.logger.name={name}", *more]


def weights(name: str) -> dict[str, Tensor]:
    checkpoint = torch.load(f"runs/{name}/version_0/checkpoints/last.ckpt", weights_only=True)
    assert checkpoint["global_step"] == STEPS
    return {key: value for key, value in checkpoint["state_dict"].items() if isinstance(value, Tensor)}


def test_fit_on_two_nodes_gives_the_weights_of_one_process(workplace: Path) -> None:
    """The same global batch of 4: on two nodes, and in one process.

    float32 adds up in another order: within 1e-5, where the steps move weights by 1e-2 and more. Without dropout, and
    with given positives, so that the two views of a sentence differ.
    """
    sentences = [line for line in toy_sentences(80) if "," not in line]
    rows = [f"{first},{second}\n" for first, second in zip(sentences[:16], sentences[16:32], strict=True)]
    Path("pairs.csv").write_text("".join(["sent0,sent1\n", *rows]))

    assert main(fit_words("one", 4)) == 0
    ddp = ["--trainer.strategy", "ddp", "--trainer.devices"]
    on_two_nodes(*fit_words("nodes", 2, *ddp, "1", "--trainer.num_nodes", "2"))

    one = weights("one")
    for key, tensor in weights("nodes").items():
        torch.testing.assert_close(tensor, one[key], rtol=0, atol=1e-5, msg=key)
    assert main(fit_words("start", 4, "--trainer.max_steps", "1", "--model.optimizer.lr", "0")) == 0
    start = torch.load("runs/start/version_0/checkpoints/last.ckpt", weights_only=True)["state_dict"]
    assert max(float((one[key] - start[key]).abs().max()) for key in one) > 1e-2
