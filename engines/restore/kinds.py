"""How restorers want their picture: the catalogue knows, or the size of the picture tells."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engines.analysis.open import file_of
from engines.catalogue.entry import Contract
from engines.catalogue.store import SUFFIXES, Store
from engines.files import open_regular
from engines.restore.choice import RestoreChoice
from engines.restore.restorer import Restorer
from engines.runtime.device import Device

_HALF: Final = (0.5, 0.5, 0.5)


def _contract(template: str, side: int) -> Contract:
    return Contract(template, side, mean=_HALF, std=_HALF, out_mean=_HALF, out_std=_HALF)


LARGE: Final = _contract("ffhq_512", 512)
"""GFPGAN, CodeFormer and GPEN of 512 pixels."""
SMALL: Final = _contract("arcface_128", 256)
"""GPEN of 256."""


def make_restorer(choice: RestoreChoice, store: Store, device: Device) -> Restorer:
    """Makes a restorer; not yet opened.

    Args:
        choice: Which, and how much of it.
        store: Where networks lie.
        device: What it runs on.

    Raises:
        UsageError: There is no such network or file, or it is for something else.
        EngineError: Its file is not there, or is broken.
    """
    path = file_of(choice.model, "restore", store)
    if Path(choice.model).suffix.lower() in SUFFIXES:
        open_regular(path, "a model").close()
        known = store.recognise(path)
        contract = known.contract if known is not None and known.kind == "restore" else None
    else:
        contract = store.catalogue.entry(choice.model).contract
    return Restorer(path, contract or (LARGE, SMALL), choice.strength, choice.every, device)
