"""Our modules in a `SentenceTransformer`, beside its own Transformer, Pooling, Dense and Normalize.

sentence-transformers loads a folder with one of them only with ``trust_remote_code=True`` and where sentrep is
installed, and refuses the folder otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base import modules as st
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.util import import_module_class
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from sentrep.encoder.compute.plan import Compute, Pass
from sentrep.encoder.compute.pooling import POOLINGS
from sentrep.encoder.compute.template import Prompts
from sentrep.encoder.encode import preprocess
from sentrep.encoder.modules import Dense, Normalize, SentenceModule, described
from sentrep.encoder.text.tokenizer import TextTokenizer, position_limit
from sentrep.errors import InputError
from sentrep.types import Need, TokenBatch

_MODES = {"cls": "cls", "max": "max", "mean": "mean", "last": "lasttoken"}
"""Our names of the poolings that sentence-transformers has, and its names."""
_OTHER_MODES = ("mean_sqrt_len_tokens", "weightedmean")
SETTINGS = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim")
"""The settings of a `SentenceTransformer` beside its modules."""
_ACTIVATIONS: dict[str, type[nn.Module]] = {"identity": nn.Identity, "tanh": nn.Tanh}


class PromptedTransformer(st.InputModule):
    """A transformer, its prompt and its pooling, where sentence-transformers lacks the prompt or the pooling.

    Args:
        transformer: of sentence-transformers.
        pooling: one of `sentrep.encoder.POOLINGS`.
        prompt: a template, see `SentenceEncoder`.
        subtract_template: whether the template's own vector is subtracted.
    """

    config_file_name = "prompted_transformer_config.json"
    config_keys = ("pooling", "prompt", "subtract_template")  # type: ignore[assignment]

    def __init__(
        self, transformer: st.Transformer, pooling: str, prompt: str | None = None, subtract_template: bool = False
    ) -> None:
        super().__init__()
        self.transformer, self.pooling, self.prompt, self.subtract_template = (
            transformer, pooling, prompt, subtract_template,
        )  # fmt: skip
        backbone: Any = transformer.auto_model
        tokenizer: Any = transformer.tokenizer
        self._ids = TextTokenizer(tokenizer, prompt, position_limit(backbone.config))
        prompts, compute = Prompts(self._ids.template, longest=1), Compute(layout="padded", cheap_dropout=False)
        self._pass = Pass(backbone, pooling, prompts, subtract_template, nn.ModuleList(), compute)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:  # type: ignore[override]
        """transformers' tokenizer, which knows nothing of the prompt."""
        return self._ids.tokenizer

    @property
    def max_seq_length(self) -> int | None:
        """As in `SentenceEncoder`: with a prompt, the length of the text alone."""
        return self.transformer.max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, length: int | None) -> None:
        self.transformer.max_seq_length = length

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any) -> dict[str, Tensor]:
        """``input_ids`` and ``attention_mask`` (B, L) of texts."""
        return preprocess(self._ids, inputs, prompt, self.max_seq_length)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Adds ``sentence_embedding`` (B, H) and ``token_embeddings`` (B, L, H)."""
        output = self._pass(TokenBatch(features["input_ids"], features["attention_mask"]), None, Need())
        return {**features, "sentence_embedding": output.embedding, "token_embeddings": output.token_states}

    def get_embedding_dimension(self) -> int:
        """H."""
        return self.transformer.get_embedding_dimension()

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write the transformer, the tokenizer and the settings."""
        self.transformer.save(output_path, safe_serialization=safe_serialization)
        self.save_config(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> PromptedTransformer:  # type: ignore[override]
        """Read what `save` wrote."""
        config = cls.load_config(model_name_or_path, subfolder, **_place(options))
        return cls(st.Transformer.load(model_name_or_path, subfolder=subfolder, **options), **config)


class OwnModule(st.Module):
    """A `SentenceModule` that is neither a `Dense` nor a `Normalize`, after the pooling."""

    def __init__(self, module: SentenceModule, in_features: int) -> None:
        super().__init__()
        self.module, self.in_features = module, in_features

    def get_config_dict(self) -> dict[str, Any]:
        """Class, arguments and width."""
        return {**described([self.module])[0], "in_features": self.in_features}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Replaces ``sentence_embedding``."""
        vectors = self.module(features["sentence_embedding"], features["token_embeddings"], features["attention_mask"])
        return {**features, "sentence_embedding": vectors}

    def get_embedding_dimension(self) -> int:
        """D'."""
        return self.module.out_features

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write the settings and the weights."""
        self.save_config(output_path)
        if self.state_dict():
            self.save_torch_weights(output_path, safe_serialization=safe_serialization)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> OwnModule:  # type: ignore[override]
        """Read what `save` wrote; a class that is not sentrep's needs ``trust_remote_code``."""
        config = cls.load_config(model_name_or_path, subfolder, **_place(options))
        kind = _class_of(config["class_path"], model_name_or_path, bool(options.get("trust_remote_code")))
        module = kind(**config["init_args"])
        module.build(config["in_features"], 0.02)
        own = cls(module, config["in_features"])
        if own.state_dict():
            cls.load_torch_weights(model_name_or_path, subfolder, model=own, **_place(options))
        return own


OWN = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in (PromptedTransformer, OwnModule)}
"""By their names in ``modules.json``."""


def _place(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of sentence-transformers that say where the files of a module lie."""
    names = ("token", "cache_folder", "revision", "local_files_only")
    return {name: options[name] for name in names if name in options}


def assembled(modules: Sequence[nn.Module], former: SentenceTransformer, device: str) -> SentenceTransformer:
    """A model of these modules, with the settings of another one."""
    settings: Any = {name: getattr(former, name) for name in SETTINGS}
    return SentenceTransformer(modules=list(modules), device=device, **settings)


def pooling_name(pooling: Pooling) -> str:
    """Our name of a pooling of sentence-transformers; several modes are joined by ``+``."""
    modes = pooling.pooling_mode
    ours = {theirs: name for name, theirs in _MODES.items()}
    return "+".join(ours.get(mode, mode) for mode in ([modes] if isinstance(modes, str) else modes))


def check_pooling(name: str) -> None:
    """Refuse a pooling that neither sentrep nor sentence-transformers has.

    Raises:
        InputError: names the poolings.
    """
    if name not in POOLINGS and not all(mode in _MODES or mode in _OTHER_MODES for mode in name.split("+")):
        raise InputError(f"encoder: pooling must be one of {', '.join(POOLINGS)}; got {name!r}")


def to_modules(
    transformer: st.Transformer,
    pooling: str,
    include_prompt: bool,
    prompt: str | None,
    subtract_template: bool,
    behind: Sequence[Any],
) -> list[nn.Module]:
    """The modules of a `SentenceTransformer` that computes the same, on the same parameters."""
    width = transformer.get_embedding_dimension()
    modes = [_MODES.get(mode, mode) for mode in pooling.split("+")]
    if prompt is None and all(mode in (*_MODES.values(), *_OTHER_MODES) for mode in modes):
        mode: Any = modes[0] if len(modes) == 1 else tuple(modes)
        found: list[nn.Module] = [transformer, Pooling(width, mode, include_prompt=include_prompt)]
        width *= len(modes)
    else:
        found = [PromptedTransformer(transformer, pooling, prompt, subtract_template)]
    for module in behind:
        if type(module) is Dense:
            layer = st.Dense(width, module.out_features, activation_function=_ACTIVATIONS[module.activation]())
            layer.linear = module.dense
            found.append(layer)
        else:
            found.append(st.Normalize() if type(module) is Normalize else OwnModule(module, width))
        width = module.out_features
    return found


def from_modules(behind: Sequence[Any], width: int) -> list[SentenceModule]:
    """Our modules that compute the same as the modules of sentence-transformers after the pooling.

    They have the same parameters.

    Raises:
        InputError: there is no such module.
    """
    found: list[SentenceModule] = []
    for module in behind:
        found.append(_from_module(module, width))
        width = found[-1].out_features
    return found


def _from_module(module: Any, width: int) -> SentenceModule:
    if isinstance(module, OwnModule):
        return module.module
    found: Dense | Normalize = Normalize()
    if isinstance(module, st.Dense):
        names: dict[Any, str] = {kind: name for name, kind in _ACTIVATIONS.items()}
        activation: Any = names.get(type(module.activation_function))
        vectors = {module.module_input_name, module.module_output_name} == {"sentence_embedding"}
        if activation is None or module.use_residual or not vectors:
            raise InputError("a Dense layer of the model is not linear or tanh, which sentrep cannot train")
        found = Dense(activation, module.out_features)
    elif not isinstance(module, st.Normalize):
        raise InputError(f"the model has a module {type(module).__name__}, which sentrep cannot train")
    found.build(width, 0.0)
    if isinstance(found, Dense):
        if module.linear.bias is not None:
            found.dense = module.linear
        else:
            found.dense.weight = module.linear.weight
            found.dense.bias.requires_grad_(False)
    return found


def _class_of(name: str, folder: str, trusted: bool) -> Any:
    """The class of a name: one of sentrep's modules or, with trust, any class.

    Raises:
        InputError: for a foreign class without trust.
    """
    known = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in SentenceModule.__subclasses__()}
    if name in known and name.startswith("sentrep."):
        return known[name]
    if not trusted:
        raise InputError(
            f"{folder}: its module {name[:80]!r} is not one of sentrep's and would run foreign code; if you trust "
            "the model, allow it with trust_remote_code: true"
        )
    return import_module_class(name, folder, trust_remote_code=True)
