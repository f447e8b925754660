"""The examples of docstrings and of the book's page."""

import doctest
import importlib
import pathlib
import pkgutil
import re

import pytest

import pelton

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = [module.name for module in pkgutil.iter_modules(pelton.__path__) if module.name != "_native"]


@pytest.mark.parametrize("name", ["", *MODULES])
def test_docstrings(name):
    module = importlib.import_module(f"pelton.{name}".rstrip("."))
    result = doctest.testmod(module, extraglobs={"pelton": pelton})
    assert result.failed == 0


def test_public_names_have_docstrings():
    for name in pelton.__all__:
        public = getattr(pelton, name)
        assert public.__doc__, name
        for member in vars(public) if isinstance(public, type) else ():
            attribute = getattr(public, member)
            if not member.startswith("_") and attribute is not None:
                assert attribute.__doc__, f"{name}.{member}"


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


PAGES = ["README.md", "docs/python.md", "python/README.md"]


@pytest.mark.parametrize("page, number", [(page, number) for page in PAGES for number in range(len(python_blocks(page)))])
def test_page(page, number, tmp_path, monkeypatch):
    # Each block stands for itself, in a folder with the file of the README.
    readme = (ROOT / "README.md").read_text()
    trades = re.search(r"^```csv trades\.csv\n(.*?)^```", readme, re.MULTILINE | re.DOTALL).group(1)
    (tmp_path / "trades.csv").write_text(trades)
    monkeypatch.chdir(tmp_path)
    exec(compile(python_blocks(page)[number], f"{page}, block {number + 1}", "exec"), {"__name__": "__main__"})
