"""``sentrep fit`` on two nodes of one process each, as torchrun would start them, over loopback."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from sentrep.cli import main
from support import SENTENCES, forked_ranks

HOW = [
    *("fit", "-c", "run.yaml", "--data.train=pairs.csv", "--model.encoder.dropout=0", "--report=null"),
    *("--model.optimizer=torch.optim.SGD", "--model.optimizer.lr=0.1"),
]
NODES = ["--data.batch_size=2", "--trainer.strategy=ddp", "--trainer.num_nodes=2", "--trainer.devices=1"]


def weights(name: str) -> dict[str, Tensor]:
    state = torch.load(f"runs/{name}/version_0/checkpoints/last.ckpt", weights_only=True)["state_dict"]
    return {key: value for key, value in state.items() if isinstance(value, Tensor)}


@pytest.mark.slow
def test_fit_on_two_nodes_gives_the_weights_of_one_process(workplace: Path) -> None:
    """The same global batch of 4, without dropout, and with given positives, so that the views of a sentence differ.

    float32 adds up in another order: within 1e-5, where the steps move weights by 1e-2 and more.
    """
    rows = [f"{first},{second}\n" for first, second in zip(SENTENCES[:16], SENTENCES[16:32], strict=True)]
    Path("pairs.csv").write_text("".join(["sent0,sent1\n", *rows]))
    assert main([*HOW, "--trainer.logger.name=one"]) == 0
    for node in forked_ranks(main, [*HOW, *NODES, "--trainer.logger.name=nodes"], nodes=2):
        node.join(240)
        assert node.exitcode == 0, Path("said-0.txt").read_text()
    assert main([*HOW, "--trainer.logger.name=start", "--trainer.max_steps=1", "--model.optimizer.lr=0"]) == 0
    start, one, nodes = map(weights, ("start", "one", "nodes"))
    torch.testing.assert_close(nodes, one, rtol=0, atol=1e-5)
    assert max(float((one[key] - start[key]).abs().max()) for key in one) > 1e-2
