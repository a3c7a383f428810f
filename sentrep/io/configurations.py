"""Reports and configurations of transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from transformers import GenerationConfig, PreTrainedConfig
from transformers.utils import logging as transformers_logging

_ORIGIN = {"_name_or_path", "architectures", "dtype", "transformers_version", "_from_model_config"}
"""Settings about the file of a configuration; they do not change the model's output."""


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and reports of transformers: a model of ours is one line of ours, or none."""
    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def settings_text(config: PreTrainedConfig | GenerationConfig) -> str:
    """The settings that a model computes by, as text, without where they come from."""
    settings = json.loads(config.to_json_string(use_diff=False))
    return json.dumps({key: settings[key] for key in sorted(settings.keys() - _ORIGIN)})
