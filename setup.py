"""The wheel's page: README.md with absolute links, since the package index has none of the repository's files.

Everything else about the package is in pyproject.toml, the repository's address too.
"""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def absolute(text: str, repository: str) -> str:
    """A page of the repository with its relative links and images as addresses."""
    text = re.sub(r"(!\[[^\]]*\]\()(?![\w+.-]+:|#)", rf"\1{repository}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^\[\]]*\]\()(?![\w+.-]+:|#)", rf"\1{repository}/blob/main/", text)


if __name__ == "__main__":
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (address,) = re.findall(r'^Repository = "(.*)"$', project, re.MULTILINE)
    page = absolute((ROOT / "README.md").read_text(encoding="utf-8"), address)
    setup(long_description=page, long_description_content_type="text/markdown")
