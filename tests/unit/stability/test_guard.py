"""Non-finite losses and gradients: training stops, or the step is skipped."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning import Trainer
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from sentrep import Objective, SentRepModule, distributed
from sentrep.errors import InputError
from sentrep.negatives import MemoryBank
from sentrep.objectives import Contrastive
from sentrep.stability import NonFiniteGuard, SkippedStep
from sentrep.types import StepTerms, TextBatch, Views
from support import quiet_trainer, run_processes, tiny_encoder, toy_data

BAD = 3
"""The optimiser step that fails."""


class Poison(Objective):
    """Nothing, but from step `BAD` on, for ``count`` steps, no number: in the loss, or in the gradient alone."""

    def __init__(self, what: str = "loss", count: int = 1) -> None:
        super().__init__()
        self.what, self.count = what, count
        self.step = 1  # set by Watch

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        zero = 0.0 * views.anchor.sum()
        if BAD <= self.step < BAD + self.count:
            # the square root has the value 0 and the gradient 1/0 · 0
            return zero + torch.nan if self.what == "loss" else (zero * 0).abs().sqrt()
        return zero


class Watch(Callback):
    """Tells `Poison` the step, and keeps the weights after each."""

    def __init__(self) -> None:
        self.weights: dict[int, Tensor] = {}
        self.rows: dict[int, list[list[int]]] = {}
        self.state: dict[str, Any] = {}
        self.metrics: dict[str, Tensor] = {}

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, batch: TextBatch, batch_idx: int) -> None:
        step = trainer.global_step + 1
        pl_module.objectives.terms["poison"].step = step
        self.rows.setdefault(step, []).append(batch.rows.tolist())

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        self.weights[trainer.global_step] = torch.cat([p.detach().flatten() for p in pl_module.parameters()])
        self.state, self.metrics = pl_module.state_dict(), trainer.callback_metrics


def fit(
    folder: Path, guard: NonFiniteGuard, poison: Poison, steps: int = 5, accumulate: int = 1, watch: Watch | None = None
) -> Watch:
    module = SentRepModule(
        tiny_encoder(), {"simcse": Contrastive(negatives={"bank": MemoryBank(64)}), "poison": poison}, seed=3
    )
    watch = watch or Watch()
    saver = ModelCheckpoint(folder, "{step}", save_on_exception=True, every_n_train_steps=1)
    how = {"max_steps": steps, "accumulate_grad_batches": accumulate, "default_root_dir": folder}
    quiet_trainer(callbacks=[guard, watch, saver], **how).fit(module, toy_data())
    return watch


@pytest.mark.parametrize("what", ["loss", "gradient"])
@pytest.mark.filterwarnings("ignore:MemoryBank")
def test_a_bad_step_is_left_out(what: str, tmp_path: Path) -> None:
    guard = NonFiniteGuard("skip")
    with pytest.warns(UserWarning, match=f"step {BAD}: the {'loss' if what == 'loss' else 'gradient'}.* skipped"):
        watch = fit(tmp_path, guard, Poison(what))
    assert torch.equal(watch.weights[BAD], watch.weights[BAD - 1])
    assert not torch.equal(watch.weights[BAD + 1], watch.weights[BAD])
    assert watch.weights[5].isfinite().all()
    assert all(value.isfinite().all() for value in watch.state.values() if isinstance(value, Tensor))
    assert guard.skipped == 1
    assert watch.metrics["train/skipped_steps"] == 1
    written = json.loads((tmp_path / f"nonfinite-step={BAD}.json").read_text())
    assert written["rows"] == watch.rows[BAD]
    assert (written["loss"] == "nan") == (what == "loss")
    assert written.keys() == {"step", "loss", "gradient_norm", "rows"}
    assert written["step"] == BAD


@pytest.mark.parametrize(("late", "steps", "accumulate"), [(False, 5, 2), (True, 5, 1), (True, BAD, 1)])
@pytest.mark.filterwarnings("ignore:MemoryBank")
def test_stop_leaves_a_checkpoint_from_before(
    late: bool, steps: int, accumulate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late is the way of CUDA, on a CPU: the step is made before it is judged."""
    start = NonFiniteGuard.on_train_start

    def look_late(self: NonFiniteGuard, *arguments: Any) -> None:
        start(self, *arguments)
        self._late = late

    monkeypatch.setattr(NonFiniteGuard, "on_train_start", look_late)
    watch = Watch()
    says = rf"^step {BAD}: the loss is nan \(objective poison\), so training stops; the rows of its batch .*"
    with pytest.raises(InputError, match=says):
        fit(tmp_path, NonFiniteGuard(), Poison(), steps, accumulate, watch)
    (path,) = tmp_path.glob("*.ckpt")
    checkpoint = torch.load(path, weights_only=True)
    assert checkpoint["global_step"] == BAD - 1
    assert all(value.isfinite().all() for value in checkpoint["state_dict"].values() if isinstance(value, Tensor))
    assert rows_written(tmp_path, BAD) == watch.rows[BAD]


@pytest.mark.filterwarnings("ignore:MemoryBank", "ignore:step")
def test_too_many_in_a_row_end_the_training(tmp_path: Path) -> None:
    guard = NonFiniteGuard("skip", max_skips=2)
    with pytest.raises(InputError, match=f"step {BAD + 2}: .* after 2 skipped steps in a row"):
        fit(tmp_path, guard, Poison(count=4), steps=8)
    assert guard.skipped == 2


def test_the_count_goes_on_after_a_resume() -> None:
    guard, other = NonFiniteGuard("skip"), NonFiniteGuard("skip")
    guard.skipped = 4
    other.load_state_dict(guard.state_dict())
    assert other.skipped == 4


def begin(guard: NonFiniteGuard, folder: Path, scaler: Any = None) -> SimpleNamespace:
    """The trainer of a run that begins on a CPU: what the guard asks of it."""
    trainer = SimpleNamespace(
        global_step=0, scaler=scaler, log_dir=str(folder / "logs"), default_root_dir=str(folder),
        checkpoint_callbacks=[ModelCheckpoint(folder, save_on_exception=True)],
    )  # fmt: skip
    guard.on_train_start(trainer, SimpleNamespace(device=torch.device("cpu")))  # type: ignore[arg-type]
    return trainer


def judge(
    guard: NonFiniteGuard, trainer: SimpleNamespace, terms: dict[str, float], gradient: float = 1.0, inner: bool = False
) -> None:
    """Judge a step whose loss is the sum of these terms; they belong to the module or to a part of it."""
    weight, module = torch.nn.Parameter(torch.ones(2)), torch.nn.ModuleDict({"inner": torch.nn.Module()})
    weight.grad = torch.full((2,), gradient)
    losses = {name: torch.tensor(value) for name, value in terms.items()}
    owner: Any = module["inner"] if inner else module
    owner.terms = StepTerms(None, losses, {}, torch.tensor([7 + distributed.rank()]), None)  # type: ignore[arg-type]
    guard.on_before_backward(trainer, module, torch.tensor(sum(terms.values())))  # type: ignore[arg-type]
    guard.on_before_optimizer_step(trainer, module, torch.optim.SGD([weight]))  # type: ignore[arg-type]


def rows_written(folder: Path, step: int) -> Any:
    """The rows of a bad step."""
    (file,) = folder.rglob(f"nonfinite-step={step}.json")
    return json.loads(file.read_text())["rows"]


def test_what_is_a_part_of_another_module_is_found(tmp_path: Path) -> None:
    guard = NonFiniteGuard("skip")
    with pytest.warns(UserWarning, match=r"objective simcse"), pytest.raises(SkippedStep):
        judge(guard, begin(guard, tmp_path), {"simcse": torch.nan}, inner=True)
    assert rows_written(tmp_path, 1) == [[7]]


def decide(folder: str) -> bool:
    """Whether this process leaves the step out; the loss of process 1 alone is bad."""
    guard = NonFiniteGuard("skip")
    try:
        judge(guard, begin(guard, Path(folder)), {"simcse": torch.nan if distributed.rank() else 1.0})
    except SkippedStep:
        return True
    return False


def test_all_processes_decide_alike(tmp_path: Path) -> None:
    assert run_processes(decide, 2, str(tmp_path)) == [True, True]
    assert rows_written(tmp_path, 1) == [[7, 8]]


def test_a_pass_at_perturbed_weights_has_the_rows_of_the_first(tmp_path: Path) -> None:
    guard, module, weight = NonFiniteGuard("skip"), torch.nn.Module(), torch.nn.Parameter(torch.ones(2))
    trainer: Any = begin(guard, tmp_path)
    judge(guard, trainer, {"simcse": 1.0})
    guard.on_before_backward(trainer, module, torch.tensor(torch.nan))  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="skipped"), pytest.raises(SkippedStep):
        guard.on_before_optimizer_step(trainer, module, torch.optim.SGD([weight]))  # type: ignore[arg-type]
    assert rows_written(tmp_path, 1) == [[7]]


def test_on_a_cpu_a_bad_step_ends_the_training_at_once_and_names_all_that_failed(tmp_path: Path) -> None:
    guard = NonFiniteGuard()
    trainer = begin(guard, tmp_path)
    judge(guard, trainer, {"fine": 1.0})
    with pytest.raises(InputError, match=r"loss is nan \(objective one, other\)"):
        judge(guard, trainer, {"one": torch.nan, "fine": 1.0, "other": torch.inf})
    assert [file.parent.name for file in tmp_path.rglob("*.json")] == ["logs"], "beside the logs"
    guard.on_exception(trainer, None, InputError("loss is nan"))  # type: ignore[arg-type]
    assert trainer.checkpoint_callbacks[0].save_on_exception, "the weights are sound"


def test_a_gradient_that_overflows_is_for_the_loss_scaler_and_a_loss_is_not(tmp_path: Path) -> None:
    guard = NonFiniteGuard()
    trainer = begin(guard, tmp_path, scaler=object())
    judge(guard, trainer, {"one": 1.0}, gradient=torch.inf)
    with pytest.raises(InputError, match="loss is inf"):
        judge(guard, trainer, {"one": torch.inf})
    guard = NonFiniteGuard("skip")
    trainer = begin(guard, tmp_path, scaler=object())
    with pytest.warns(UserWarning, match="skipped"):
        judge(guard, trainer, {"one": torch.inf})  # the scaler leaves the step out
    assert guard.skipped == 1


def test_the_last_step_is_judged_at_the_end_if_not_before(tmp_path: Path) -> None:
    guard = NonFiniteGuard()
    trainer = begin(guard, tmp_path)
    guard._late = True
    judge(guard, trainer, {"one": torch.nan})
    with pytest.raises(InputError, match="loss is nan"):
        guard.on_train_end()
