"""FSDP2: parameters, gradients and optimiser state of a module divided among the processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy, Strategy
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

from sentrep.distributed import whole
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.copies import duplicate
from sentrep.errors import InputError
from sentrep.views import FGSM

EXTRA_STATE = "_extra_state"
"""Last part of the key under which a state dict holds what `nn.Module.get_extra_state` gives."""

NOT_FSDP1 = (
    "trainer.strategy fsdp is FSDP1, which flattens parameters, so that biases and norms could not be left out of "
    "weight decay; use FSDP2: -c configs/overrides/fsdp2.yaml (lightning.pytorch.strategies.ModelParallelStrategy)"
)


def is_sharded(module: nn.Module) -> bool:
    """Whether `shard` has divided it."""
    return isinstance(module, FSDPModule)


def whole_encoder(module: nn.Module) -> SentenceEncoder:
    """The encoder to evaluate or save: the module's own or, where that is divided, a copy in one piece.

    All processes must call this together. What each then does with its copy is its own affair.
    """
    encoder = module.encoder
    assert isinstance(encoder, SentenceEncoder)
    if not is_sharded(module):
        return encoder
    # through the layers themselves, FSDP2 would have all processes do the same passes
    undivided: Any = module.undivided
    copy: SentenceEncoder = duplicate(undivided).to_empty(device=encoder.device)
    with torch.no_grad():
        for parts, target in ((encoder.parameters(), copy.parameters()), (encoder.buffers(), copy.buffers())):
            for part, tensor in zip(parts, target, strict=True):
                tensor.copy_(whole(part))
    return copy.train(encoder.training)


def check_strategy(module: nn.Module, strategy: Strategy, world_size: int) -> None:
    """Refuse what would train something else or not at all, or leave checkpoints that nothing here reads.

    Raises:
        InputError: names the setting.
    """
    if isinstance(strategy, FSDPStrategy):
        raise InputError(NOT_FSDP1)
    if not isinstance(strategy, ModelParallelStrategy):
        return
    if strategy._data_parallel_size != world_size or strategy._tensor_parallel_size != 1:
        raise InputError(
            "trainer.strategy ModelParallelStrategy: only data is divided, not the matrices of a layer; set "
            f"data_parallel_size to {world_size} (all processes) and tensor_parallel_size to 1"
        )
    if strategy._save_distributed_checkpoint:
        raise InputError(
            "trainer.strategy ModelParallelStrategy: a checkpoint has to be one file; set save_distributed_checkpoint "
            "to false"
        )
    if any(isinstance(part, FGSM) for part in module.modules()):
        raise InputError(
            "FGSM takes a gradient within the forward pass, which FSDP2 has no way for; use trainer.strategy ddp"
        )


def shard(module: nn.Module, mesh: DeviceMesh, device: Any) -> None:
    """Divide a module among all processes by FSDP2 (``torch.distributed.fsdp.fully_shard``).

    Each layer of the backbone is a group of its own, whole only while it computes. Everything else (word embeddings,
    heads, decoders) is one group, so that weights that are tied stay tied. Parameters without gradient and buffers are
    left whole on every process. As with DDP, all start from the weights of process 0, and the gradient is the mean over
    the processes.

    Args:
        module: changed in place.
        mesh: one dimension of all processes.
        device: of this process.
    """
    module.to(device)
    for tensor in (*module.parameters(), *module.buffers()):
        dist.broadcast(tensor.detach(), 0)
    encoder = module.encoder
    assert isinstance(encoder, SentenceEncoder)
    # for `whole_encoder`: the shapes alone, and no child of the module
    object.__setattr__(module, "undivided", duplicate(encoder).to("meta"))
    frozen = {parameter for parameter in module.parameters() if not parameter.requires_grad}
    options: dict[str, Any] = {"mesh": mesh, "reshard_after_forward": True}
    if frozen:
        options["ignored_params"] = frozen
    for layer in layers(encoder.backbone):
        fully_shard(layer, **options)
    fully_shard(module, **options)
    register_fsdp_forward_method(module, "training_step")
    for part in module.modules():
        if _has_extra_state(part):
            part.register_load_state_dict_pre_hook(_keep_extra_state)


def restore_extra_states(module: nn.Module, checkpoint: str | Path) -> None:
    """Give what samplers remember back to a divided module: Lightning restores parameters and buffers alone there."""
    state = torch.load(checkpoint, map_location="cpu", mmap=True, weights_only=True)["state_dict"]
    for name, part in module.named_modules():
        if _has_extra_state(part) and (key := f"{name}.{EXTRA_STATE}") in state:  # older ones lack one of them
            part.set_extra_state(state[key])


def _has_extra_state(part: nn.Module) -> bool:
    return type(part).get_extra_state is not nn.Module.get_extra_state


def _keep_extra_state(part: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Where torch has put a placeholder, which nothing could be restored from."""
    key = prefix + EXTRA_STATE
    if not isinstance(state_dict.get(key), (dict, Tensor)):
        state_dict[key] = part.get_extra_state()


def layers(backbone: nn.Module) -> nn.ModuleList:
    """The stack of layers of a transformer: its longest list of modules.

    Raises:
        InputError: it has none.
    """
    lists = [part for part in backbone.modules() if isinstance(part, nn.ModuleList)]
    if not lists:
        raise InputError(f"{type(backbone).__name__} has no list of layers to divide; use trainer.strategy ddp")
    return max(lists, key=len)
