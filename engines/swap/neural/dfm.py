"""DFM: a network that one person was trained into by the user, as DeepFaceLab exports it."""

from __future__ import annotations

from typing import Final

from engines.catalogue.entry import Contract, Shapes

DFM: Final = Contract(
    # The template is of the whole face, a coverage of 2.2 and a shift of -0.08 in it already.
    template="dfl_whole_face",
    channels="bgr",
    layout="nhwc",
    masks=("target", "face"),
)
"""Its side is that of the file's shape, and nobody has to tell it whose face to put on."""

_OUTPUTS: Final = ("* * * 1", "* * * 3", "* * * 1")

DFM_SHAPES: Final = (
    Shapes(inputs=("* * * 3",), outputs=_OUTPUTS),
    Shapes(inputs=("* * * 3", "1"), outputs=_OUTPUTS),
)
"""Without and with a value that says how far to morph."""

MORPH: Final = 0.75
"""How far it morphs from the live face to the person's, where the network leaves a choice."""

MASK_BLUR: Final = 6.25
"""Its masks are hard. So far they are blurred: the σ of a mask of 256 pixels."""
