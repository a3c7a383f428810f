"""A sweep with Optuna over SentRepModule: learning rate, temperature and head, bad trials cut short.

Needs optuna (pip install optuna). Run it: python sweep.py
With a real model: SentenceEncoder("NAME"), a train file, val=["stsb-dev"] and as many steps as its recipe has; add
storage="sqlite:///sweep.db", load_if_exists=True to create_study, and several processes share the work.
"""

from functools import partial

import lightning
import optuna
import torch

import sentrep
from sentrep.objectives import Contrastive

SMALL = {
    "model_type": "bert",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
}


class Report(lightning.Callback):
    def __init__(self, trial: optuna.Trial) -> None:
        self.trial = trial

    def on_validation_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        if trainer.sanity_checking:
            return
        self.trial.report(trainer.callback_metrics["val/sts"].item(), trainer.global_step)
        if self.trial.should_prune():
            raise optuna.TrialPruned


def train(trial: optuna.Trial) -> float:
    lightning.seed_everything(0, verbose=False)  # every trial from the same weights, in the same order
    rate = trial.suggest_float("lr", 1e-4, 3e-3, log=True)
    objective = Contrastive(temperature=trial.suggest_float("temperature", 0.03, 0.3, log=True))
    head = sentrep.ProjectionHead("mlp") if trial.suggest_categorical("head", [True, False]) else None
    encoder = sentrep.SentenceEncoder(SMALL, pooling="mean", tokenizer="toy")
    module = sentrep.SentRepModule(encoder, [objective], head=head, optimizer=partial(torch.optim.AdamW, lr=rate))
    trainer = lightning.Trainer(
        max_steps=30, val_check_interval=10, check_val_every_n_epoch=None, callbacks=[Report(trial)],
        logger=False, use_distributed_sampler=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, sentrep.SentRepDataModule(train="toy", val=["toy-dev"]))
    return trainer.callback_metrics["val/sts"].item()


if __name__ == "__main__":
    pruner = optuna.pruners.MedianPruner(n_startup_trials=2)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0), pruner=pruner)
    study.optimize(train, n_trials=4)
    print(f"best of {len(study.trials)} trials: toy-dev {study.best_value:.1f} with {study.best_params}")
