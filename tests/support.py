"""What several tests share: real data where there is some, tiny encoders, several processes."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import fields
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from jsonargparse import ArgumentParser
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from sentrep import SentenceEncoder, SentRepDataModule, SentRepModule, TextBatch, Views
from sentrep.cli import main, seeds
from sentrep.config import to_config
from sentrep.data import toy
from sentrep.encoder import Compute, EncoderServices
from sentrep.encoder.encode import pad
from sentrep.testing import loss_and_gradients, own_share, run_processes

__all__ = ["loss_and_gradients", "own_share", "run_processes"]  # for the tests, which find all that they share here

PRELOADED = [
    "hypothesis", "pytest", "sentrep.cli.run", "tensorboard.summary",
    "torch._dynamo", "torch.utils.tensorboard", "transformers.models.bert.modeling_bert",
]  # fmt: skip
"""What processes of tests need is imported once, by the server of which they are forks."""
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(PRELOADED)

SHARED = Path(__file__).resolve().parents[2] / "shared"

# The smallest model of every family that the encoder promises to work with. The padding id is the toy tokenizer's,
# because RoBERTa and its kin count positions from it.
_SIZES = {
    "vocab_size": 4000,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "pad_token_id": 0,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **_SIZES},
    "roberta": {"model_type": "roberta", **_SIZES},
    "distilbert": {
        "model_type": "distilbert", "vocab_size": 4000, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48,
        "max_position_embeddings": 66, "pad_token_id": 0,
    },
    "mpnet": {"model_type": "mpnet", **_SIZES, "pad_token_id": 1},
    "electra": {"model_type": "electra", **_SIZES, "embedding_size": 16},
    "albert": {"model_type": "albert", **_SIZES, "embedding_size": 16},
    "modernbert": {
        "model_type": "modernbert", **_SIZES, "bos_token_id": 2, "eos_token_id": 3,
        "cls_token_id": 2, "sep_token_id": 3, "global_attn_every_n_layers": 1,
    },
}  # fmt: skip


def shared_path(relative: str) -> Path:
    """A file or folder of the real data beside the repository; the test is skipped where it is absent."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"needs the real data ../shared/{relative}, which is not on this machine")
    return path


def table_rows(report: Path) -> list[list[str]]:
    """The cells of a table in Markdown, row by row."""
    lines = report.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line.startswith("|")]


def seeded_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of ``fit --seeds`` train and test in this process, which has imported everything."""
    monkeypatch.setattr(seeds, "_sentrep", lambda words, run, jobs: "failed" if main(words) else None)


def tiny_encoder(family: str = "bert", seed: int = 0, **arguments: Any) -> SentenceEncoder:
    """A tiny encoder with random weights and the toy tokenizer; fields of `Compute` are taken by name."""
    torch.manual_seed(seed)
    how = {field.name: arguments.pop(field.name) for field in fields(Compute) if field.name in arguments}
    arguments.setdefault("compute", Compute(**how))
    arguments.setdefault("tokenizer", "toy")
    return SentenceEncoder(dict(FAMILIES[family]), **arguments)


def plugged(plugin: Any, encoder: SentenceEncoder, seed: int = 0) -> Any:
    """A plug-in, after its `build` for an encoder."""
    plugin.build(encoder.spec(seed), EncoderServices(encoder, seed))
    return plugin


def bare_views(anchor: Tensor, positive: Tensor, negative: Tensor | None = None, **more: Any) -> Views:
    """Views of vectors alone, for objectives that read no tokens."""
    return Views(anchor, positive, negative, None, None, **more)  # type: ignore[arg-type]


def text_batch(
    encoder: SentenceEncoder,
    sentences: list[str],
    positives: list[str] | None = None,
    negatives: list[str] | None = None,
) -> TextBatch:
    """A training batch of these sentences."""

    def tokens(texts: list[str] | None) -> Any:
        if texts is None:
            return None
        return pad(encoder.tokenize(texts, encoder.max_length)[0], encoder.tokenize.pad_token_id)

    rows = torch.arange(len(sentences))
    return TextBatch(tokens(sentences), tokens(positives), tokens(negatives), rows)


def toy_sentences(count: int) -> list[str]:
    """Some distinct sentences of different lengths."""
    return toy.sentences(count)


# Without commas, so that they stand in a csv as they are; known words, so that no two are the same to the tokenizer.
SENTENCES = [sentence for sentence in toy_sentences(120) if "," not in sentence]


def write_pairs(file: str | Path, count: int = 12) -> None:
    """Scored pairs of sentences."""
    rows = [f"{SENTENCES[2 * i]},{SENTENCES[2 * i + 1]},{i % 6}\n" for i in range(count)]
    Path(file).write_text("".join(["sentence1,sentence2,score\n", *rows]))


def write_workplace(folder: Path) -> None:
    """corpus.txt, dev.csv and run.yaml (a tiny random BERT, 4 steps of batch 4), as a user would have them."""
    (folder / "corpus.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES[24:40]))
    write_pairs(folder / "dev.csv")
    configuration = {
        "model": {
            "encoder": {"backbone": FAMILIES["bert"], "tokenizer": "toy", "pooling": "mean"},
            "head": {"kind": "mlp"},
            "objectives": {"simcse": {"class_path": "Contrastive", "init_args": {"temperature": 0.1}}},
        },
        "data": {"train": "corpus.txt", "val": ["dev.csv"], "batch_size": 4},
        "trainer": {
            "max_steps": 4,
            "val_check_interval": 2,
            "accelerator": "cpu",
            "enable_model_summary": False,
            "enable_progress_bar": False,
        },
    }
    (folder / "run.yaml").write_text(json.dumps(configuration))  # JSON is YAML


STEADY = "--model.scheduler=constant"  # else the learning rate depends on where the run is to end


def fit(*words: str) -> int:
    """The status of ``sentrep fit`` in a `write_workplace`, at a learning rate that no last step changes."""
    return main(["fit", "-c", "run.yaml", STEADY, *words])


def forked(function: Callable[..., Any], *arguments: Any, said: str = os.devnull, **environment: str) -> BaseProcess:
    """Start a process of its own, and of a session of its own, that ends with what a function returns as its status.

    Args:
        function: of a module, such as `sentrep.cli.main`.
        arguments: what can be pickled.
        said: file for what the process writes to its standard output and error.
        environment: variables beside those of this process.
    """
    process = _FORKS.Process(target=_forked, args=({**os.environ, **environment}, said, function, arguments))
    process.start()
    return process


def forked_ranks(
    function: Callable[..., Any], *arguments: Any, nodes: int = 1, **environment: str
) -> list[BaseProcess]:
    """Two processes of one run, as torchrun would start them on one node or two.

    Each writes into a file of its own, ``said-RANK.txt``.
    """
    run = {
        "TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_USE_AGENT_STORE": "False", "GLOO_SOCKET_IFNAME": "lo",
        "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": str(2 // nodes),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(*free_ports(1)),
    }  # fmt: skip
    of_ranks = [{"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": "0"} for rank in ("0", "1")]
    if nodes == 2:
        of_ranks = [{"RANK": rank, "LOCAL_RANK": "0", "GROUP_RANK": rank} for rank in ("0", "1")]
    return [
        forked(function, *arguments, said=f"said-{number}.txt", **run, **environment, **of_rank)
        for number, of_rank in enumerate(of_ranks)
    ]


def free_ports(count: int) -> list[int]:
    """Ports of this machine at which nobody listens."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _forked(environment: dict[str, str], said: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment, OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    multiprocessing.set_start_method(None, force=True)  # workers of a loader are forks, as in a process of a user
    with open(said, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(function(*arguments))


def assert_equal_to_one_process(
    results: list[Any], loss: Tensor, gradients: dict[str, Tensor], atol: float = 1e-10
) -> None:
    """Every process's `loss_and_gradients` must be those of one process."""
    for other_loss, other in results:
        torch.testing.assert_close(other_loss, loss, rtol=0, atol=atol)
        assert other.keys() == gradients.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(other[name], gradient, rtol=0, atol=atol, msg=name)


def assert_same(first: Any, second: Any) -> None:
    """Equal to the bit, through containers."""
    if isinstance(first, torch.Tensor):
        assert torch.equal(first, second)
    elif isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, (list, tuple)):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    else:
        assert first == second


def assert_same_gradients(found: Tensor, expected: Tensor, leaves: Any, rtol: float = 0, atol: float = 1e-10) -> None:
    """One number, or tensor, in two ways: its value, and its gradient by every leaf (0 by one that it does not meet).

    A tensor is weighed to be a number, differently at every place.
    """
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
    slopes = torch.linspace(-1, 2, found.numel() + 1, dtype=found.dtype)[1:].view_as(found)
    gradients = [
        torch.autograd.grad((slopes * x).sum(), leaves, retain_graph=True, materialize_grads=True)
        for x in (found, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=rtol, atol=atol)
    assert any(gradient.any() for gradient in gradients[0])


def rebuilt(plugin: Any, base: type) -> Any:
    """A plug-in from its configuration, which went through YAML and is still the same."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--plugin", type=base)
    written = parser.dump(parser.parse_object({"plugin": to_config(plugin)}))
    again = parser.instantiate(parser.parse_string(written)).plugin
    assert type(again) is type(plugin)
    assert to_config(again) == to_config(plugin)
    return again


def quiet_trainer(**options: Any) -> lightning.Trainer:
    """A trainer on the CPU, for one epoch, that writes and shows nothing but what these options ask for."""
    keys = ("logger", "enable_progress_bar", "enable_model_summary", "use_distributed_sampler")
    saves = any(isinstance(callback, ModelCheckpoint) for callback in options.get("callbacks", ()))
    length = {} if "max_steps" in options or "max_epochs" in options else {"max_epochs": 1}
    how = {"accelerator": "cpu", "log_every_n_steps": 1, "enable_checkpointing": saves, **length}
    return lightning.Trainer(**{**how, **dict.fromkeys(keys, False), **options})


def toy_data(batch_size: int = 4) -> SentRepDataModule:
    """The toy corpus in an order of its own."""
    return SentRepDataModule("toy", batch_size=batch_size, seed=3)


class Losses(lightning.Callback):
    """The loss of every micro-batch."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        self.found.append(float(outputs["loss"]))


def loader(batches: list[Any]) -> Any:
    """Batches as they are, for `lightning.Trainer`."""
    return torch.utils.data.DataLoader(batches, batch_size=None)  # type: ignore[arg-type]


def assert_resumes(build: Callable[[], SentRepModule], folder: Path, **options: Any) -> SentRepModule:
    """Four steps, and two of them from the checkpoint in the middle, end alike to the bit.

    Returns:
        the module that was never interrupted; its checkpoints are ``folder/step=2.ckpt`` and ``step=4.ckpt``.
    """
    callbacks, ends = options.pop("callbacks", ()), []
    for place, start in ((folder, None), (folder / "resumed", folder / "step=2.ckpt")):
        module = build()
        saver = ModelCheckpoint(place, "{step}", every_n_train_steps=2, save_top_k=-1)
        run = quiet_trainer(max_steps=4, callbacks=[saver, *callbacks], **options)
        torch.manual_seed(99)  # on which nothing depends
        run.fit(module, toy_data(), ckpt_path=start, weights_only=True if start else None)
        assert run.global_step == 4
        ends.append(module)
    whole, resumed = ends
    assert_same(resumed.state_dict(), whole.state_dict())
    return whole


def checkpoint_of(module: SentRepModule, folder: Path) -> Path:
    """The checkpoint of one step of training."""
    run = quiet_trainer(max_steps=1, default_root_dir=folder)
    run.fit(module, toy_data())
    run.save_checkpoint(folder / "x.ckpt")
    return folder / "x.ckpt"
