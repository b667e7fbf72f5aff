"""The package as a whole."""

import importlib
import pkgutil

import pytest

import shipsilently_cli
import shipsilently_local

MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (shipsilently_local, shipsilently_cli)
    for module in pkgutil.iter_modules(package.__path__)
    if module.name not in ("__main__", "demo", "examples")
]


@pytest.mark.parametrize("name", ["shipsilently_local", "shipsilently_cli", *MODULES])
def test_exports_are_sorted_and_there(name: str) -> None:
    """Every module lists its public names in order, and each of them exists."""
    module = importlib.import_module(name)
    upper_first = sorted(
        module.__all__, key=lambda each: (not each.isupper(), each[0].islower(), each)
    )
    assert module.__all__ == upper_first
    assert all(hasattr(module, each) for each in module.__all__)


def test_the_map_names_every_module() -> None:
    """The package's docstring names each of its modules."""
    assert shipsilently_local.__doc__
    for module in pkgutil.iter_modules(shipsilently_local.__path__):
        assert f"`{module.name}`" in shipsilently_local.__doc__
