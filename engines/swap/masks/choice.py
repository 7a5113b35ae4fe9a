"""Which masks are wanted, as they are typed: ``oval,occlusion=xseg_1,regions:skin+nose,live-mouth``."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

OUTLINES: Final = ("oval", "ellipse", "box")
"""The face as it is tracked, as the template expects it, or the whole crop."""
LIVE: Final = ("live-mouth", "live-eyes")
"""What of the live face may stay."""
REGIONS: Final = MappingProxyType({
    "skin": (1,), "brows": (2, 3), "eyes": (4, 5), "glasses": (6,), "ears": (7, 8, 9), "nose": (10,), "mouth": (11,),
    "lips": (12, 13), "neck": (14, 15), "hair": (17,), "hat": (18,),
})  # fmt: skip
"""Parts of a face by name: classes of a network that was trained on CelebAMask-HQ."""
USUAL_REGIONS: Final = ("skin", "brows", "eyes", "glasses", "nose", "mouth", "lips")
"""Glasses are among them: what is seen through them is the eyes."""
AUTO: Final = "auto"
"""The oval, and what is before the face where a network is there that finds it."""


@dataclass(frozen=True, slots=True)
class MaskChoice:
    """What the new face is masked by; the least of all counts.

    Attributes:
        outlines: Of :data:`OUTLINES`.
        live: Of :data:`LIVE`.
        occlusion: The network that finds what is before the face, a name or a path; empty for one that is there,
            None for none.
        regions: Parts of the face that are shown, of :data:`REGIONS`; empty for no such mask.
        parser: The network that finds them, a name or a path; empty for one that is there.
        if_there: Whether ``occlusion`` is left out where no network is there.
    """

    outlines: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    occlusion: str | None = None
    regions: tuple[str, ...] = ()
    parser: str = ""
    if_there: bool = False


def read_masks(text: str) -> MaskChoice:
    """Reads a choice.

    Args:
        text: ``auto``, or words separated by commas: :data:`OUTLINES`, :data:`LIVE`, ``occlusion[=MODEL]``,
            ``regions[:NAME+NAME…][=MODEL]``.

    Raises:
        ValueError: Some of it is none of that, or given twice; the sentence names it.
    """
    if text.strip() == AUTO:
        return MaskChoice(outlines=("oval",), occlusion="", if_there=True)
    seen: dict[str, tuple[str, str]] = {}
    for word in text.split(","):
        what, equals, model = (part.strip() for part in word.partition("="))
        name, colon, names = (part.strip() for part in what.partition(":"))
        if name not in (*OUTLINES, *LIVE, "occlusion", "regions"):
            raise ValueError(f"there is no mask '{word.strip()}'")
        if name in seen:
            raise ValueError(f"'{name}' is given twice")
        if (equals and not model) or (colon and not names):
            raise ValueError(f"something is missing at the end of '{word.strip()}'")
        if (model and name not in ("occlusion", "regions")) or (names and name != "regions"):
            raise ValueError(f"'{name}' takes nothing behind it")
        seen[name] = (names, model)
    names, parser = seen.get("regions", ("", ""))
    regions = tuple(names.split("+")) if names else USUAL_REGIONS if "regions" in seen else ()
    for region in regions:
        if region not in REGIONS:
            raise ValueError(f"there is no region '{region}'; there are {', '.join(REGIONS)}")
    return MaskChoice(
        outlines=tuple(name for name in seen if name in OUTLINES),
        live=tuple(name for name in seen if name in LIVE),
        occlusion=seen["occlusion"][1] if "occlusion" in seen else None,
        regions=regions,
        parser=parser,
    )
