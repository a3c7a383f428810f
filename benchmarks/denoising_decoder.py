"""DenoSent's decoder and loss: one training step against torch's own decoder with all logits, in time and memory.

The reference is what one writes first, and what the authors wrote: ``nn.TransformerDecoder`` over the padded batch with
the sentence vector as a memory of length 1, the masked-LM head at every position, cross-entropy that ignores padding.
Ours is `sentrep.objectives.Denoising`. Both share the head, the word embeddings it is tied to, the inputs and the
decoder's weights; a first pass without dropout checks that loss and gradients are equal. Then forward and backward with
dropout are timed in turns in one process; the peak memory of each is read in a process of its own.

    python benchmarks/denoising_decoder.py [--threads 1] [--repeats 3] [--precision fp32] [--json results.json]

The sizes are BERT-base's and the paper's; needs Linux (/proc) and about 6 GiB. ``--layers 2 --vocab 3000`` is a quick
look.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from machine import memory_mib
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForMaskedLM

from sentrep.encoder.loading.lm_head import LanguageModelHead
from sentrep.objectives import Denoising
from sentrep.types import EncoderOutput, TextBatch, TokenBatch, Views

NOISE, DROPOUT = 0.825, 0.1
SIZES = {
    "layers": 16, "heads": 1, "width": 768, "feed_forward": 2048, "batch_size": 64, "length": 32, "vocab": 30522,
    "threads": 1, "repeats": 3,
}  # fmt: skip


@dataclass
class Problem:
    """One batch: embedded tokens of B sentences, their ids, and a vector for each."""

    tokens: TokenBatch
    embedded: Tensor
    """(B, L, E)."""
    vectors: Tensor
    """(B, E) leaf."""
    words: nn.Parameter
    head: LanguageModelHead
    spec: SimpleNamespace  # what `Denoising` reads of `EncoderSpec`


class Reference(nn.Module):
    """Torch's decoder, all positions, all logits."""

    def __init__(self, problem: Problem, options: argparse.Namespace) -> None:
        super().__init__()
        layer = nn.TransformerDecoderLayer(
            options.width, options.heads, options.feed_forward, DROPOUT, "relu", batch_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, options.layers)
        self.noise = nn.Dropout(NOISE)
        self.head = problem.head

    def forward(self, problem: Problem) -> Tensor:
        """The loss."""
        ids, padding = problem.tokens.input_ids, problem.tokens.attention_mask == 0
        states = self.decoder(self.noise(problem.embedded), problem.vectors[:, None], tgt_key_padding_mask=padding)
        logits = self.head(states)
        return F.cross_entropy(logits.flatten(0, 1).float(), ids.masked_fill(padding, -100).flatten())


class Ours(nn.Module):
    """The objective, on views that hold what it reads."""

    def __init__(self, problem: Problem, options: argparse.Namespace) -> None:
        super().__init__()
        self.objective = Denoising(
            options.layers, options.heads, options.feed_forward, dropout=DROPOUT, noise=NOISE, target="anchor"
        )
        self.objective.build(problem.spec)

    def forward(self, problem: Problem) -> Tensor:
        """The loss."""
        output = EncoderOutput(problem.vectors, problem.embedded, problem.embedded)
        views = Views(problem.vectors, problem.vectors, None, output, output)
        batch = TextBatch(problem.tokens, None, None, torch.arange(len(problem.tokens)))
        return self.objective(views, batch)


WAYS = {"reference": Reference, "ours": Ours}


def make_problem(options: argparse.Namespace) -> Problem:
    """Three sentences in eight fill the length, the others from a third of it: like Wikipedia's, cut at 32 tokens."""
    torch.manual_seed(0)
    rows, longest, width = options.batch_size, options.length, options.width
    lengths = torch.randint(longest // 3 + 1, longest, (rows,)).where(torch.arange(rows) % 8 > 2, longest)
    mask = (torch.arange(longest) < lengths[:, None]).long()
    tokens = TokenBatch(torch.randint(options.vocab, (rows, longest)) * mask, mask, int(lengths.sum()))
    config = AutoConfig.for_model(
        "bert", vocab_size=options.vocab, hidden_size=width, num_attention_heads=1, num_hidden_layers=0
    )
    words = nn.Parameter(torch.empty(options.vocab, width).normal_(std=0.02))
    head = LanguageModelHead(AutoModelForMaskedLM.from_config(config), words)
    facts = {"embedding_dim": width, "hidden_size": width, "vocab_size": options.vocab, "pad_token_id": 0, "seed": 0}
    spec = SimpleNamespace(**facts, frame=(1, 1), rows_at_once=None, lm_head=lambda: head)
    vectors = torch.randn(rows, width, requires_grad=True)
    return Problem(tokens, torch.randn(rows, longest, width), vectors, words, head, spec)


def step(model: nn.Module, problem: Problem, options: argparse.Namespace) -> float:
    """Forward and backward; gradients are left behind."""
    forget_gradients(model, problem)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16"):
        loss = model(problem)
    loss.backward()
    return loss.item()


def forget_gradients(model: nn.Module, problem: Problem) -> None:
    """Give their memory back."""
    for leaf in (*model.parameters(), problem.vectors):
        leaf.grad = None


def check_equal(models: dict[str, nn.Module], problem: Problem, options: argparse.Namespace) -> float:
    """Refuse to compare what differs: loss, and the gradients of vectors and word embeddings, without any dropout."""
    reference, ours = models["reference"], models["ours"]
    copy_weights(ours.objective.decoder, reference.decoder)
    ours.objective.noise = reference.noise.p = 0.0
    results = []
    for model in (reference.eval(), ours.eval()):
        loss = step(model, problem, options)
        results.append([torch.tensor(loss), problem.vectors.grad, problem.words.grad])
    close = {"rtol": 1e-4, "atol": 1e-7} if options.precision == "fp32" else {"rtol": 0.05, "atol": 1e-3}
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, **close)
    ours.objective.noise = reference.noise.p = NOISE
    reference.train()
    ours.train()
    return results[0][0].item()


@torch.no_grad()
def copy_weights(ours: nn.Module, reference: nn.Module) -> None:
    """Give torch's decoder our weights."""
    for mine, theirs in zip(ours.layers, reference.layers, strict=True):
        width = mine.hidden.in_features
        theirs.self_attn.in_proj_weight.copy_(mine.projection.weight)
        theirs.self_attn.out_proj.weight.copy_(mine.attended.weight)
        theirs.multihead_attn.in_proj_weight[2 * width :] = mine.value.weight
        theirs.multihead_attn.out_proj.weight.copy_(mine.crossed.weight)
        theirs.linear1.weight.copy_(mine.hidden.weight)
        theirs.linear2.weight.copy_(mine.output.weight)
        theirs.linear1.bias.zero_()  # as ours start; torch's others start at zero, too
        theirs.linear2.bias.zero_()


def run_in_turns(options: argparse.Namespace) -> tuple[float, dict[str, list[tuple[float, float]]]]:
    """The common loss, and the wall-clock and processor seconds of every step."""
    problem = make_problem(options)
    models = {way: made(problem, options) for way, made in WAYS.items()}
    loss = check_equal(models, problem, options)
    print(f"both give the loss {loss:.5f} and the same gradients", file=sys.stderr)
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(options.repeats):
        for way, model in models.items():
            start, start_cpu = time.perf_counter(), time.process_time()
            step(model, problem, options)
            times[way].append((time.perf_counter() - start, time.process_time() - start_cpu))
            forget_gradients(model, problem)
        print("  " + ", ".join(f"{way} {taken[-1][0]:.2f} s" for way, taken in times.items()), file=sys.stderr)
    return loss, times


def memory(way: str, options: argparse.Namespace) -> list[float]:
    """Peak of two steps in a fresh process, in MiB: all of it but the libraries, and all but libraries and weights."""
    arguments = [str(x) for name in SIZES for x in (f"--{name.replace('_', '-')}", getattr(options, name))]
    command = [sys.executable, __file__, "--measure", way, "--precision", options.precision, *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(way: str, options: argparse.Namespace) -> None:
    """In a process of its own."""
    libraries = memory_mib()
    problem = make_problem(options)
    model = WAYS[way](problem, options)
    weights = memory_mib()
    for _ in range(2):
        step(model, problem, options)
    peak = memory_mib("VmHWM")
    print(json.dumps([peak - libraries, peak - weights]))


def table(times: dict[str, list[tuple[float, float]]], memories: dict[str, list[float]]) -> str:
    """Medians, and how many times less it is than the reference: for times, the median of the ratios in each turn."""
    lines = [
        "| way | s per step | faster | processor s | faster | peak MiB | less | of it in the step | less |",
        "| --- " + "| ---: " * 8 + "|",
    ]
    for way in WAYS:
        cells = []
        for kind in (0, 1):
            mine, theirs = ([turn[kind] for turn in times[name]] for name in (way, "reference"))
            ratio = median(other / own for other, own in zip(theirs, mine, strict=True))
            cells += [f"{median(mine):.2f}", f"{ratio:.2f}×"]
        for mine, theirs in zip(memories[way], memories["reference"], strict=True):
            cells += [f"{mine:.0f}", f"{theirs / mine:.2f}×"]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    for name, default in SIZES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.measure:
        measure(options.measure, options)
        return
    memories = {way: memory(way, options) for way in WAYS}
    loss, times = run_in_turns(options)
    tokens = make_problem(options).tokens
    padding = 1 - (tokens.real_tokens or 0) / tokens.input_ids.numel()
    print(
        f"torch {torch.__version__}, {options.precision}, {options.threads} thread(s), {options.layers} layers, "
        f"width {options.width}, batch {options.batch_size}×{options.length} with {padding:.1%} padding, "
        f"{options.vocab} words, {options.repeats} runs in turns, loss {loss:.4f} both ways\n"
    )
    print(table(times, memories))
    if options.json:
        setting = {"torch": torch.__version__, "precision": options.precision, "padding": padding, "loss": loss}
        sizes = {name: getattr(options, name) for name in SIZES}
        results = {"seconds_and_processor_seconds": times, "peak_mib_and_of_it_in_the_step": memories}
        options.json.write_text(json.dumps({**setting, **sizes, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
