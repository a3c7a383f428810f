"""What makes an encoder of a transformer, as plain data beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sentrep import checks
from sentrep.encoder.adapters import Lora
from sentrep.encoder.compute.pooling import POOLINGS
from sentrep.encoder.loading.model_files import read_json
from sentrep.encoder.text.tokenizer import Prompt
from sentrep.errors import InputError, first_line

SETTINGS_FILE = "sentrep.json"
MODULES_FILE = "sentrep_modules.safetensors"
LONGEST = 10**6
"""Tokens of a sequence."""
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
"""Names of sentence-transformers; the two distances are negative."""


@dataclass(frozen=True)
class Settings:
    """Settings that travel with a model, named as in `SentenceEncoder`. They contain no projection head.

    Raises:
        InputError: names the argument that is wrong.
    """

    pooling: str = "cls"
    prompt: str | None = None
    subtract_template: bool = False
    max_length: int = 32
    max_seq_length: int | None = None
    adapter: Lora | None = None
    prompts: dict[str, str] = field(default_factory=dict)
    """Prompts before a text, by name."""
    default_prompt_name: str | None = None
    """The prompt that `encode` takes."""
    modules: list[dict[str, Any]] = field(default_factory=list)
    """Class and arguments of the modules after the pooling (`sentrep.encoder.modules.described`)."""
    similarity_fn_name: str = "cosine"
    """What `similarity` computes."""
    truncate_dim: int | None = None
    """Dimensions that `encode` keeps; None for all."""
    include_prompt: bool = True
    """Whether the pooling reads the tokens of a prompt; without them `encode` refuses prompts."""

    def __post_init__(self) -> None:
        owner, given = "encoder", checks.given
        checks.one_of(owner, tuple(POOLINGS), pooling=self.pooling)
        checks.text(owner, **given(prompt=self.prompt))
        if self.pooling == "mask" and self.prompt is None:
            raise InputError("pooling 'mask' needs a prompt with a [MASK], for example '\"[X]\" means [MASK].'")
        checks.flag(owner, subtract_template=self.subtract_template)
        checks.whole(owner, 1, LONGEST, max_length=self.max_length, **given(max_seq_length=self.max_seq_length))
        checks.instance(owner, dict, prompts=self.prompts)
        if not all(isinstance(text, str) for item in self.prompts.items() for text in item):
            raise InputError(f"its prompts are {str(self.prompts)[:80]}, not texts by name")
        checks.one_of(owner, (None, *self.prompts), default_prompt_name=self.default_prompt_name)
        checks.each(owner, dict, modules=self.modules)
        checks.one_of(owner, SIMILARITIES, similarity_fn_name=self.similarity_fn_name)
        checks.whole(owner, 1, **given(truncate_dim=self.truncate_dim))
        checks.flag(owner, include_prompt=self.include_prompt)
        for module in self.modules:
            if not isinstance(module.get("class_path"), str) or not isinstance(module.get("init_args"), dict):
                raise InputError(f"{str(module)[:80]!r} is no module with its arguments")

    @property
    def default_prompt(self) -> str:
        """What `encode` puts before a text."""
        return "" if self.default_prompt_name is None else self.prompts[self.default_prompt_name]

    @classmethod
    def read(cls, stored: Mapping[str, Any], source: str | Path) -> Settings:
        """The settings that came with a model, as `dataclasses.asdict` writes them.

        They say nothing else: no permission to run code, no other tokenizer.

        Raises:
            InputError: names the source and the setting that is unknown or wrong.
        """
        if unknown := stored.keys() - {one.name for one in fields(cls)}:
            name = str(min(unknown))[:80]
            raise InputError(f"{source}: unknown setting {name!r}; it is damaged, or of another version of sentrep")
        try:
            adapter = stored.get("adapter")
            return cls(**{**stored, "adapter": None if adapter is None else Lora(**adapter)})
        except (TypeError, InputError) as error:
            raise InputError(f"{source}: {first_line(error)}; the model is damaged") from error

    def arguments(self) -> dict[str, Any]:
        """The arguments of `SentenceEncoder`, but for the modules."""
        subtracting = self.prompt is not None and self.subtract_template
        return {
            "pooling": self.pooling,
            "prompt": Prompt(self.prompt, subtract=True) if subtracting else self.prompt,  # type: ignore[arg-type]
            "max_length": self.max_length,
            "max_seq_length": self.max_seq_length,
            **({} if self.adapter is None else {"trainable": self.adapter}),
        }


def read_settings(folder: Path) -> Settings:
    """The settings of a folder of ours."""
    stored = read_json(folder / SETTINGS_FILE)
    stored.pop("version", None)
    return Settings.read(stored, folder / SETTINGS_FILE)
