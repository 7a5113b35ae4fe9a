"""Whether the networks that the user has are what they should be."""

from __future__ import annotations

import os
from collections.abc import Iterable

from engines.catalogue.store import Store, default_folder, how_to_mend, what_is_wrong
from realtime.doctor.check import Check
from realtime.settings.load import load
from realtime.show import short_path


def check_models(store: Store | None = None) -> Iterable[Check]:
    """Compares the sum of each network in the user's folder with the one it should have.

    Args:
        store: The folder; the one of the user's configuration by default.

    Raises:
        UsageError: The configuration is wrong, or a file cannot be read.
    """
    store = store or Store(load({}, os.environ).config.models or default_folder())
    held = [one for one in store.all() if one.path is not None]
    wrong = [one for one in held if one.state == "wrong"]
    for one in wrong:
        yield Check("models", "failed", what_is_wrong(one), how_to_mend(one))
    unpinned = [one.entry.name for one in held if one.state == "unpinned"]
    if unpinned:
        found = f"{', '.join(unpinned)}: there is no sum to compare with"
        yield Check("models", "missing", found, "doppelcam models verify --pin")
    right = len(held) - len(wrong) - len(unpinned)
    if not held:
        yield Check("models", "ok", f"none in {short_path(store.folder)}; the engine mesh needs none")
    elif right:
        yield Check("models", "ok", f"{right} in {short_path(store.folder)}, sha256 as expected")
