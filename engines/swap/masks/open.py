"""What masks a choice means: the networks behind its words, found in the user's folder."""

from __future__ import annotations

from pathlib import Path

from engines.analysis.open import file_of
from engines.catalogue.entry import Kind
from engines.catalogue.store import Store
from engines.errors import EngineError
from engines.runtime.device import Device
from engines.swap.masks.choice import MaskChoice
from engines.swap.masks.live_parts import LivePart
from engines.swap.masks.masks import MaskSource, outline_mask
from engines.swap.masks.seen import Occluder, Regions


def make_masks(
    choice: MaskChoice, template: str, store: Store, device: Device
) -> tuple[str, tuple[MaskSource, ...]]:
    """The outline of the face, and what else takes from it; not yet opened.

    Args:
        choice: What is wanted.
        template: Of the crop.
        store: Where networks lie.
        device: What they run on.

    Returns:
        The first outline, ``box`` where none was chosen; and everything else.

    Raises:
        UsageError: There is no such network, or it is for something else.
        EngineError: Its file is not there.
    """
    # The box is always there.
    more = [outline_mask(outline, template) for outline in choice.outlines[1:] if outline != "box"]
    more.extend(LivePart(live) for live in choice.live)
    if choice.occlusion is not None:
        path = _file(choice.occlusion, "occlude", store, "occlusion", choice.if_there)
        if path is not None:
            more.append(Occluder(path, device))
    if choice.regions:
        path = _file(choice.parser, "parse", store, "regions")
        if path is not None:
            more.append(Regions(path, choice.regions, device))
    return choice.outlines[0] if choice.outlines else "box", tuple(more)


def _file(named: str, kind: Kind, store: Store, mask: str, if_there: bool = False) -> Path | None:
    """The file of a network by its name or path, or the first of its kind that is there."""
    if named:
        return file_of(named, kind, store)
    path = store.first(kind)
    if path is None and not if_there:
        first = store.catalogue.of_kind(kind)[0].name
        raise EngineError(
            f"The mask {mask} needs a network of the kind {kind}, and none is there.",
            f"Type: doppelcam models pull {first} (or name a file: --mask {mask}=FILE)",
        )
    return path
