"""What became of a frame, as the pipeline tells the guard."""

from __future__ import annotations

from dataclasses import dataclass

from engines.errors import DoppelcamError
from realtime.frame import Frame


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one frame.

    Attributes:
        frame: The frame that came in, painted. Half painted when something failed. Of a frame that is the same as
            the one before, the picture that was painted then, which is shared and must not be written to.
        faces: How many faces were put on; none where it is not trusted because one of them could not be.
        trusted: There was a face, every one of them was swapped and blended with finite numbers, and nobody who
            was swapped a moment ago is missing. Or the swapper painted every pixel of the frame.
        error: Why it is not trusted; None when there simply was no face.
    """

    frame: Frame
    faces: int
    trusted: bool
    error: DoppelcamError | None = None
