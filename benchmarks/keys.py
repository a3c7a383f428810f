"""All keys of a run with their defaults, from the signatures: docs/keys.md, and the JSON schema of recipes for editors.

``python benchmarks/pages.py --write`` writes both.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from pydoc import locate
from types import ModuleType
from typing import Any

import yaml
from lightning.pytorch import Trainer

import sentrep.encoder
import sentrep.negatives
import sentrep.objectives
import sentrep.stability
import sentrep.training
import sentrep.views
import sentrep.weighting
from sentrep.cli.layers import CALLBACKS
from sentrep.cli.run import TRAINER_DEFAULTS

Schema = dict[str, Any]
PLUGINS: dict[str, ModuleType] = {
    "Objectives": sentrep.objectives,
    "Negatives": sentrep.negatives,
    "Weightings": sentrep.weighting,
    "Views, perturbations and token augmentations": sentrep.views,
}
OTHERS = {
    "Modules": ("Dense", "Normalize", "ConvolutionalPooling", "Flow"),
    "Optimisers": ("SAM", "AdversarialWeightPerturbation"),
}
PARTS = {
    "head": sentrep.encoder.ProjectionHead,
    "encoder": sentrep.SentenceEncoder,
    "encoder.compute": sentrep.encoder.Compute,
    "encoder.trainable, as LoRA": sentrep.encoder.Lora,
    "encoder.prompt, as a dict": sentrep.encoder.Prompt,
}
"""Below ``model``."""
SIMPLE = {"bool": "boolean", "int": "integer", "float": "number", "str": "string", "None": "null"}
BASES = r"\b(Objective|NegativeSampler|PairWeighting|ViewMaker|Perturbation|TokenAugmentation|SentenceModule)\b"
HEAD = """# All keys

Every key of a recipe with its default, from the constructors; `required` marks a key without a default.
[Configuration](configuration.md) explains the sections, and the pages of [every name](api/sentrep.md) explain the
arguments. A plug-in is named by `class_path`, and its keys are below `init_args`.
"""
REFERENCE = {"type": "string", "pattern": r"\$\{.+\}"}
"""The value of another key."""


def arguments(kind: type) -> dict[str, inspect.Parameter]:
    """The parameters of a constructor that are keys; the parameters of an optimiser are the model's."""
    found = inspect.signature(kind).parameters.items()
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: one for name, one in found if one.kind not in rest and name != "params"}


@functools.cache
def sections() -> dict[str, type]:
    """Each section below the root of a recipe, and its class."""
    callbacks = {key: locate(default) for key, (_, default) in CALLBACKS.items()}
    return {"model": sentrep.SentRepModule, "data": sentrep.SentRepDataModule, "trainer": Trainer, **callbacks}


@functools.cache
def plugins() -> dict[str, dict[str, type]]:
    """The classes of each kind of plug-in by name, without abstract ones."""
    kinds = {title: {name: getattr(room, name) for name in room.__all__} for title, room in PLUGINS.items()}
    for title, names in OTHERS.items():
        kinds[title] = {name: getattr(sentrep.encoder, name, getattr(sentrep.stability, name, None)) for name in names}
    return {
        title: {name: kind for name, kind in found.items() if not inspect.isabstract(kind)}
        for title, found in kinds.items()
    }


# the page


def page() -> str:
    """The text of docs/keys.md."""
    parts = [f"{HEAD}\n"]
    for name, kind in sections().items():
        fixed = TRAINER_DEFAULTS if name == "trainer" else {}
        if arguments(kind):
            parts.append(f"## {name}\n\n{block(defaults(kind) | fixed)}")
        if name == "model":
            parts += [f"### model.{place}\n\n{block(defaults(part))}" for place, part in PARTS.items()]
    for title, found in plugins().items():
        parts.append(
            f"## {title}\n\n{block({name: defaults(kind) for name, kind in sorted(found.items())}, flow=True)}"
        )
    return "\n".join(parts)


def block(keys: dict[str, Any], flow: bool = False) -> str:
    """Keys and values as YAML; ``flow`` writes the arguments of each class in one line."""
    text = yaml.safe_dump(keys, default_flow_style=None if flow else False, width=54, sort_keys=False)
    return f"```yaml\n{text}```\n"


def defaults(kind: type) -> dict[str, Any]:
    """The default of each argument."""
    return {name: default(one) for name, one in arguments(kind).items()}


def default(one: inspect.Parameter) -> Any:
    """The default as a recipe writes it; an object by the name of its class."""
    given = one.default
    if given is one.empty:
        return "required"
    if isinstance(given, functools.partial):
        return {"class_path": given.func.__name__, "init_args": given.keywords}
    if "factory" in type(given).__name__.lower():  # of a dataclass
        return []
    plain = list(given) if isinstance(given, tuple) else given
    return plain if isinstance(plain, str | int | float | list | dict | None) else type(given).__name__


# the schema


def schema() -> str:
    """The JSON schema of a recipe: names of keys, and types where they are simple."""
    classes = {name: kind for found in plugins().values() for name, kind in found.items()}
    below = {name: strict(kind) for name, kind in sections().items()}
    below["model"]["properties"] |= {
        "head": {"anyOf": [strict(PARTS["head"]), {"type": "null"}]},
        "encoder": strict(PARTS["encoder"]),
    }
    below["model"]["properties"]["encoder"]["properties"]["compute"] = strict(PARTS["encoder.compute"])
    for name in CALLBACKS:
        below[name] = {"anyOf": [{"type": "null"}, {"type": "object", **with_class(strict(sections()[name]))}]}
    whole: Schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A recipe of sentrep",
        "type": "object",
        "properties": {
            "about": {"type": "object"},
            "seed_everything": {"type": ["integer", "boolean"]},
            "ckpt_path": {"type": "string"},
            **below,
        },
        "additionalProperties": False,
        "definitions": {
            "plugin": {
                "type": ["object", "string", "null"],
                "allOf": [
                    {
                        "if": {
                            "type": "object",
                            "properties": {
                                "class_path": {"enum": [name, f"{kind.__module__.rpartition('.')[0]}.{name}"]}
                            },
                            "required": ["class_path"],
                        },
                        "then": with_class(strict(kind)),
                    }
                    for name, kind in sorted(classes.items())
                ],
            },
            "plugins": {
                "if": {"type": "object", "not": {"required": ["class_path"]}},
                "then": {"additionalProperties": {"$ref": "#/definitions/plugin"}},
                "else": {
                    "if": {"type": "array"},
                    "then": {"items": {"$ref": "#/definitions/plugin"}},
                    "else": {"$ref": "#/definitions/plugin"},
                },
            },
        },
    }
    return json.dumps(whole, indent=1) + "\n"


def strict(kind: type) -> Schema:
    """The keys of a constructor, and no others."""
    return {
        "type": "object",
        "properties": {name: typed(one) for name, one in arguments(kind).items()},
        "additionalProperties": False,
    }


def with_class(keys: Schema) -> Schema:
    """A plug-in by ``class_path`` and ``init_args``, or with its arguments beside ``class_path``."""
    return {
        "properties": {"init_args": keys},
        "propertyNames": {"enum": ["class_path", "init_args", *keys["properties"]]},
    }


def typed(one: inspect.Parameter) -> Schema:
    """What the value of an argument may be: a plug-in, a simple type or one of several words, or anything."""
    text = one.annotation if isinstance(one.annotation, str) else inspect.formatannotation(one.annotation)
    if re.search(BASES, text):
        return {"$ref": "#/definitions/plugins"}
    words = re.fullmatch(r"Literal\[(.*)\]", text)
    if words:
        return {"enum": yaml.safe_load(f"[{words[1]}]")}
    kinds = [SIMPLE.get(part) for part in text.split(" | ")]
    return {"anyOf": [{"type": kinds}, REFERENCE]} if all(kinds) else {}
