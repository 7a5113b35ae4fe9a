"""BGR as the pictures that H.264 is made of: 4:2:0 by BT.709, limited range, and said to be so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engines.faces import Image

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext
    from av.video.frame import VideoFrame
    from av.video.reformatter import VideoReformatter

PIXELS: Final = "yuv420p"


def declare(context: VideoCodecContext) -> None:
    """Tells an encoder what it is given; players take untagged video of some sizes for something else."""
    from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc

    context.pix_fmt = PIXELS
    context.color_range = int(ColorRange.MPEG)
    context.colorspace = int(Colorspace.ITU709)
    context.color_primaries = int(ColorPrimaries.BT709)
    context.color_trc = int(ColorTrc.BT709)


def converted(image: Image, reformatter: VideoReformatter) -> VideoFrame:
    """A picture for such an encoder.

    Args:
        image: H×W×3 uint8 BGR, both even. Read, not kept.
        reformatter: Kept from picture to picture.
    """
    from av.video.frame import VideoFrame
    from av.video.reformatter import ColorRange, Colorspace

    return reformatter.reformat(
        VideoFrame.from_numpy_buffer(image, "bgr24"),
        format=PIXELS,
        dst_colorspace=Colorspace.ITU709,
        dst_color_range=ColorRange.MPEG,
    )
