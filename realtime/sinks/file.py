"""Frames into a file, through PyAV: exact (FFV1 in ``.mkv``) or small (H.264 in ``.mp4``)."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

from engines.errors import DeviceError, DoppelcamError, UsageError
from realtime.frame import Frame, Kind
from realtime.sinks import bt709
from realtime.sinks.i420 import require_showable

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.frame import VideoFrame
    from av.video.reformatter import VideoReformatter
    from av.video.stream import VideoStream

COMMENT = "AI-altered face (doppelcam)"
"""Written into every file and stream, so that it says by itself what it shows."""

_KEYFRAME_EVERY_S = 2


@dataclass(frozen=True, slots=True)
class _Format:
    """How one kind of file is written.

    Attributes:
        container: FFmpeg's name of the muxer.
        codec: FFmpeg's name of the encoder.
        pixels: Pixel format given to the encoder.
        muxing: Options of the muxer.
        encoding: Options of the encoder.
        tags: Metadata keys the container keeps; None when it keeps every key.
    """

    container: str
    codec: str
    pixels: str
    muxing: Mapping[str, str]
    encoding: Mapping[str, str]
    tags: frozenset[str] | None


_FORMATS: Mapping[str, _Format] = {
    # bgr0 and not yuv444p: FFV1's own colour transform is reversible, YUV's 8 bits are not.
    ".mkv": _Format(
        "matroska", "ffv1", "bgr0", {}, {"level": "3", "slices": "12", "slicecrc": "1", "threads": "0"}, None
    ),
    # Fragments while it is written, so that a killed run leaves a playable file too; one index at the end.
    # No B-frames: with fragments they would shift the first picture away from time 0.
    ".mp4": _Format(
        "mp4",
        "libx264",
        bt709.PIXELS,
        {"movflags": "+hybrid_fragmented"},
        {"preset": "veryfast", "crf": "18", "bf": "0"},
        frozenset({"title", "artist", "comment", "description", "copyright", "date", "genre"}),
    ),
}


class FileSink:
    """Writes every frame it is sent, at a constant rate; a file that is already there is replaced.

    Args:
        path: The file; its suffix chooses the format.
        metadata: More to write beside :data:`COMMENT`.
        from_first_picture: Leaves out the slates of the start: nobody waits in front of a recording.

    Raises:
        UsageError: The suffix names no format.
    """

    def __init__(self, path: Path, metadata: Mapping[str, str], *, from_first_picture: bool = False) -> None:
        self.name = f"file {path}"
        try:
            self._format = _FORMATS[path.suffix.lower()]
        except KeyError:
            raise UsageError(
                f"A video cannot be written as {path.name!r}: no format has this suffix.",
                "Use .mkv (exact, large) or .mp4 (small, plays everywhere).",
            ) from None
        self._path = path
        self._metadata = dict(metadata)
        self._from_first_picture = from_first_picture
        self._container: OutputContainer | None = None
        self._stream: VideoStream | None = None
        self._reformatter: VideoReformatter | None = None
        self._tick = Fraction(1, 30)
        self._size = (0, 0)
        self._count = 0
        self._failed = False

    def open(self, size: tuple[int, int], fps: float) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        require_showable("A video file", size, fps)
        self.close()
        import av
        from av.video.reformatter import VideoReformatter

        self._check_folder()
        # 29.97 is 30000/1001: a denominator that television's rates need, and no float noise.
        rate = Fraction(fps).limit_denominator(1001)
        self._tick, self._size, self._count, self._failed = 1 / rate, size, 0, False
        try:
            with self._path.open("wb"):
                # Only now is it known that the file can be written: the muxer opens it with the first frame.
                pass
            # The prefix keeps FFmpeg from reading a colon in the name as a protocol.
            self._container = av.open(
                f"file:{self._path}",
                "w",
                format=self._format.container,
                container_options=dict(self._format.muxing),
            )
            self._container.metadata.update(_tags(self._metadata, self._format.tags))
            self._stream = self._add_stream(self._container, size, rate)
            # The encoder, so that what it refuses is said here. The header waits for the first frame:
            # FFmpeg's fragmented muxer crashes when it finishes a file that has none.
            self._stream.codec_context.open()
        except (OSError, av.FFmpegError, ValueError) as error:
            self._failed = True
            self._abandon()
            raise self._trouble(error, starting=True) from error
        self._reformatter = VideoReformatter()

    def send(self, frame: Frame) -> None:
        """See :class:`realtime.sinks.base.Sink`."""
        if self._container is None or self._stream is None:
            raise ValueError("send() before open()")
        if frame.size != self._size:
            raise ValueError(f"a frame of {frame.size} for a file of {self._size}")
        if self._from_first_picture and not self._count and frame.kind is Kind.SLATE:
            return
        import av

        try:
            picture = self._picture(frame)
            picture.pts, picture.time_base = self._count, self._tick
            self._container.mux(self._stream.encode(picture))
        except (OSError, av.FFmpegError) as error:
            self._failed = True
            raise self._trouble(error, starting=False) from error
        self._count += 1

    def close(self) -> None:
        """See :class:`realtime.sinks.base.Sink`. Without a single frame no file is left.

        Raises:
            DeviceError: The end of the file could not be written; what came before is kept.
        """
        if self._container is None or self._stream is None:
            return
        if self._failed:
            self._abandon()
            return
        import av

        if not self._count:
            self._abandon()
            self._remove_empty()
            return
        try:
            self._container.mux(self._stream.encode(None))
            self._container.close()
        except (OSError, av.FFmpegError) as error:
            raise self._trouble(error, starting=False) from error
        finally:
            self._abandon()

    def _check_folder(self) -> None:
        folder = self._path.absolute().parent
        if not folder.is_dir():
            raise UsageError(
                f"{self._path} cannot be written: there is no folder {folder}.", "Make the folder first."
            )
        if self._path.is_dir():
            raise UsageError(
                f"{self._path} cannot be written: it is a folder.", "Give the name of a file in it."
            )

    def _add_stream(self, container: OutputContainer, size: tuple[int, int], rate: Fraction) -> VideoStream:
        options = dict(self._format.encoding)
        video = cast("VideoStream", container.add_stream(self._format.codec, rate=rate, options=options))
        context = video.codec_context
        context.width, context.height = size
        context.pix_fmt = self._format.pixels
        context.time_base = self._tick
        if self._format.pixels == bt709.PIXELS:
            context.gop_size = max(1, round(rate * _KEYFRAME_EVERY_S))
            bt709.declare(context)
        return video

    def _picture(self, frame: Frame) -> VideoFrame:
        """The frame in the encoder's pixel format; the shared buffer is read here and not kept."""
        from av.video.frame import VideoFrame

        if self._reformatter is None:
            raise ValueError("send() before open()")
        if self._format.pixels == bt709.PIXELS:
            return bt709.converted(frame.image, self._reformatter)
        source = VideoFrame.from_numpy_buffer(frame.image, "bgr24")
        return self._reformatter.reformat(source, format=self._format.pixels)

    def _abandon(self) -> None:
        """Lets the file go, whatever state it is in."""
        container, self._container = self._container, None
        self._stream = self._reformatter = None
        if container is not None:
            # It was reported already, or is being reported.
            with contextlib.suppress(Exception):
                container.close()

    def _remove_empty(self) -> None:
        """A run without a frame leaves no file behind; a link or a device is not ours to remove."""
        with contextlib.suppress(OSError):
            if self._path.is_file() and not self._path.is_symlink() and not self._path.stat().st_size:
                self._path.unlink()

    def _trouble(self, error: Exception, *, starting: bool) -> DoppelcamError:
        number = getattr(error, "errno", None)
        why = os.strerror(number) if isinstance(number, int) and 0 < number < 200 else str(error)
        if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return DeviceError(
                f"The disk takes no more of {self._path}: {why}.",
                "Free some space or write elsewhere; .mp4 files are much smaller than .mkv.",
            )
        if number in (errno.EACCES, errno.EPERM, errno.EROFS):
            return UsageError(
                f"{self._path} cannot be written: {why}.", "Choose a folder that you may write to."
            )
        if starting:
            return UsageError(
                f"{self._path} cannot be written as {self._format.codec} video: {why}.",
                "Choose another file, or reinstall PyAV: pip install --force-reinstall av",
            )
        return DeviceError(f"Writing {self._path} failed: {why}.", "Check the disk, or write elsewhere.")


def _tags(given: Mapping[str, str], kept: frozenset[str] | None) -> dict[str, str]:
    """The metadata to write: the comment first, and what the container has no key for in the description."""
    tags = {key.lower(): str(value) for key, value in given.items()}
    own = tags.pop("comment", "")
    tags["comment"] = f"{COMMENT}; {own}" if own else COMMENT
    if kept is not None:
        rest = {key: tags.pop(key) for key in list(tags) if key not in kept}
        if rest:
            lines = [tags["description"]] if "description" in tags else []
            tags["description"] = "; ".join([*lines, *(f"{key}: {value}" for key, value in rest.items())])
    return tags
