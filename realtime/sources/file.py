"""A video or a picture from a file."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import cv2
import numpy as np

from engines.analysis.photo import is_still, read_photo
from engines.errors import UsageError
from engines.faces import Image
from engines.files import open_regular, quoted
from realtime.clock import Clock
from realtime.frame import Frame, FramePool
from realtime.sources.file_layout import Layout, Turn, layout_in_own_size, layout_within, shown_size, turn_of

if TYPE_CHECKING:
    from av.buffer import Buffer
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.reformatter import VideoReformatter
    from av.video.stream import VideoStream

log = logging.getLogger(__name__)

DEFAULT_FPS: Final = 30.0
_SANE_FPS: Final = (1.0, 240.0)
_MOST_SIDE: Final = 16384
_MIN_SIDE: Final = 16
_MOST_BAD: Final = 300
"""Packets in a row that cannot be decoded, before a file counts as unreadable."""

# What ffmpeg numbers BT.709 and "not said", and where players draw the line between SD and HD.
_BT709: Final = 1
_NOT_SAID: Final = 2
_HD_HEIGHT: Final = 720

# What ffmpeg numbers the curves of HDR: PQ and HLG.
_HDR: Final = (16, 18)


class VideoFileSource:
    """Plays a video once; shows a picture for ever.

    Rotation, mirroring and pixel shape of the file are applied. The colour matrix and range it names are
    used; one that names none is taken for BT.709 from 720 lines on, as players do.

    Args:
        path: Anything ffmpeg reads, or a photo.
        clock: Stamps the frames.
        size: Width and height of the frames, pixels; the picture is fitted in with black bars. With None the
            frames have the file's own size. Odd numbers are rounded down.
        still_fps: Rate of a picture that does not move.

    Attributes:
        fps: The file's average rate, 30 where that is nonsense. Known after :meth:`open`.
    """

    device = False

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        size: tuple[int, int] | None = None,
        still_fps: float = DEFAULT_FPS,
    ) -> None:
        self.name = path.name or str(path)
        self._path = path
        self._clock = clock
        self._fit_into = (size[0] & ~1, size[1] & ~1) if size else None
        self._still_fps = still_fps
        self.size = self._fit_into or (0, 0)
        self.fps = still_fps
        self._pool = FramePool(self.size)
        self._container: InputContainer | None = None
        self._frames: Iterator[VideoFrame] | None = None
        self._first: VideoFrame | None = None
        self._reformatter: VideoReformatter | None = None
        self._layout: tuple[tuple[tuple[int, int], Turn], Layout] | None = None
        self._pixel_shape = 1.0
        self._still: Image | None = None
        self._seq = 0

    def open(self) -> None:
        """Opens the file and decodes its first picture.

        Raises:
            UsageError: The file is missing, is no video, has no picture in it, is cut off or damaged from the
                start, or may not be read. The sentence names it.
        """
        self.close()
        if is_still(self._path):
            self._open_still()
            return
        from av.video.reformatter import VideoReformatter

        self._reformatter = VideoReformatter()
        stream = self._open_video()
        first = self._first
        assert first is not None
        self.fps = _rate(stream)
        self._layout = None
        self._pixel_shape = _pixel_shape(stream)
        self._set_size(shown_size((first.width, first.height), _turn(first), self._pixel_shape))
        if first.color_trc in _HDR:
            log.warning("%s is an HDR video and will look pale; export it as SDR for true colours", self.name)

    def read(self) -> Frame | None:
        """The next picture; None at the end.

        Raises:
            UsageError: Its pictures are of a kind that cannot be shown.
        """
        captured = self._clock.now_ns()
        if self._still is not None:
            lease = self._pool.lease()
            np.copyto(lease.buffer, self._still)
        else:
            picture = self._next()
            if picture is None:
                return None
            lease = self._pool.lease()
            self._paint(picture, lease.buffer)
        frame = Frame(lease.buffer, self._seq, captured, lease=lease)
        self._seq += 1
        return frame

    def close(self) -> None:
        """See :class:`realtime.sources.base.Source`."""
        container, self._container = self._container, None
        self._frames = self._first = self._still = self._reformatter = None
        if container is not None:
            container.close()

    # Getting pictures out of the file.

    def _open_still(self) -> None:
        photo = read_photo(self._path)
        height, width = photo.shape[:2]
        self.fps = self._still_fps
        self._set_size((width, height))
        layout = self._lay_out((width, height), Turn())
        if layout.scaled != (width, height):
            smooth = cv2.INTER_AREA if layout.scaled[0] < width else cv2.INTER_CUBIC
            photo = np.asarray(cv2.resize(photo, layout.scaled, interpolation=smooth), np.uint8)
        self._still = np.empty((self.size[1], self.size[0], 3), np.uint8)
        layout.place(photo, self._still)

    def _set_size(self, own: tuple[int, int]) -> None:
        self.size = self._fit_into or (own[0] & ~1, own[1] & ~1)
        self._pool = FramePool(self.size)

    def _lay_out(self, stored: tuple[int, int], turn: Turn) -> Layout:
        """Where a stored picture of this size goes: a video may change its size, its frames may not."""
        own = shown_size(stored, turn, self._pixel_shape)
        if self._fit_into is None and (own[0] & ~1, own[1] & ~1) == self.size:
            return layout_in_own_size(stored, turn, self._pixel_shape)
        return layout_within(self.size, stored, turn, self._pixel_shape)

    def _open_video(self) -> VideoStream:
        """Opens the container and takes its first picture."""
        import av

        open_regular(self._path, "a video").close()
        shown = quoted(self._path)
        try:
            # The file may be a playlist that names other files and servers: nothing but files is let in. The
            # absolute path keeps a name like "http:clip.mp4" from being taken for an address.
            container = av.open(str(self._path.absolute()), options={"protocol_whitelist": "file"})
        except (av.FFmpegError, OSError, ValueError) as reason:
            log.debug("%s", reason)
            raise UsageError(
                f"{shown} is not a video that can be read, or it is cut off.",
                "Check that it plays elsewhere; download or export it again, for instance as MP4.",
            ) from None
        self._container = container
        try:
            stream = next((s for s in container.streams.video if not _is_cover(s)), None)
            if stream is None:
                what = "only sound" if container.streams.audio else "no picture"
                raise UsageError(f"{shown} holds {what}.", "Choose a file with a video in it.")
            try:
                stream.thread_type = "AUTO"
                self._frames = self._decoded(container, stream)
                first = next(self._frames, None)
            except (av.FFmpegError, OSError, ValueError) as reason:
                raise UsageError(
                    f"{shown} cannot be decoded: {_first_line(reason)}.", "Export it again, as H.264 in MP4."
                ) from None
            if first is None:
                raise UsageError(
                    f"{shown} has no picture that can be decoded: it is cut off or damaged.",
                    "Download or export it again.",
                )
            sides = (first.width, first.height)
            if min(sides) < _MIN_SIDE or max(sides) > _MOST_SIDE:
                raise UsageError(
                    f"{shown} has pictures of {first.width}x{first.height} pixels.", "Scale it first."
                )
            self._first = first
        except BaseException:
            self.close()
            raise
        return stream

    def _next(self) -> VideoFrame | None:
        first, self._first = self._first, None
        if first is not None:
            return first
        if self._frames is None:
            return None
        return next(self._frames, None)

    def _decoded(self, container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
        """Every picture that can be decoded, up to the end or the cut."""
        import av

        bad_in_a_row = bad = 0
        first: float | None = None
        last = 0.0
        packets = container.demux(stream)  # Ends with an empty packet, for what the decoder still holds.
        cut = ""
        ended = False
        while not ended:
            try:
                packet = next(packets, None)
            except (av.FFmpegError, OSError) as reason:
                cut, packet = _first_line(reason), None
            ended = packet is None or packet.size == 0
            try:
                pictures = stream.decode(packet)
            except av.EOFError:
                break
            except (av.FFmpegError, ValueError) as reason:
                bad, bad_in_a_row = bad + 1, bad_in_a_row + 1
                log.debug("%s: %s", self.name, reason)
                if bad_in_a_row >= _MOST_BAD:
                    cut = _first_line(reason)
                    break
                continue
            for picture in pictures:
                bad_in_a_row = 0
                if picture.pts is not None and picture.time_base:
                    last = float(picture.pts * picture.time_base)
                    first = last if first is None else first
                yield picture
        played = last - (first or 0.0) + 1.0 / _rate(stream)
        length = _seconds(container, stream)
        if cut or played < length - max(0.5, 0.02 * length):
            of = f" of {length:.1f} s" if length else ""
            why = f" ({cut})" if cut else ""
            log.warning("%s is cut off or damaged: it ends after %.1f s%s%s", self.name, played, of, why)
        elif bad:
            log.warning("%s is damaged: %d parts of it could not be decoded", self.name, bad)

    # Getting them into frames.

    def _paint(self, picture: VideoFrame, out: Image) -> None:
        """Converts one picture into a buffer: one pass by ffmpeg, one copy into place."""
        import av

        assert self._reformatter is not None
        key = ((picture.width, picture.height), _turn(picture))
        if self._layout is None or self._layout[0] != key:
            self._layout = key, self._lay_out(*key)
        layout = self._layout[1]
        hd = picture.colorspace == _NOT_SAID and picture.height >= _HD_HEIGHT
        try:
            converted = self._reformatter.reformat(
                picture,
                width=layout.scaled[0],
                height=layout.scaled[1],
                format="bgr24",
                src_colorspace=_BT709 if hd else None,
                threads=1,  # Its own pool of threads costs more than it gains up to 4K.
            )
        except (av.FFmpegError, ValueError, RuntimeError) as reason:
            what = f"{quoted(self._path)} has pictures ({picture.format.name}) that cannot be converted"
            raise UsageError(f"{what}: {_first_line(reason)}.", "Export it again, as H.264 in MP4.") from None
        layout.place(cast("Image", converted.to_ndarray()), out)


def _pixel_shape(stream: VideoStream) -> float:
    """Width of a pixel by its height; 1 where it is not said or nonsense."""
    shape = stream.sample_aspect_ratio
    ratio = float(shape) if shape else 1.0
    return ratio if 0.25 <= ratio <= 4.0 else 1.0


def _turn(picture: VideoFrame) -> Turn:
    matrix = picture.side_data.get("DISPLAYMATRIX")
    return Turn() if matrix is None else turn_of(bytes(cast("Buffer", matrix)))


def _is_cover(stream: VideoStream) -> bool:
    """Whether a stream is only the picture on a song's cover."""
    return "attached_pic" in str(stream.disposition)


def _seconds(container: InputContainer, stream: VideoStream) -> float:
    """How long the pictures last by what the file says; 0 where it does not."""
    if container.format.name == "avi" and stream.frames:
        return stream.frames / _rate(stream)  # Its duration is only an estimate from the size of the file.
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    said = re.fullmatch(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", stream.metadata.get("DURATION", ""))  # Matroska.
    if said:
        hours, minutes, seconds = said.groups()
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    if container.duration and not container.streams.audio:  # Sound may be longer than the picture.
        return container.duration / 1e6
    return 0.0


def _rate(stream: VideoStream) -> float:
    """The average rate; frames by duration, or 30, where the file says nonsense."""
    low, high = _SANE_FPS
    rates: list[Fraction | float | None] = [stream.average_rate]
    if stream.frames and stream.duration and stream.time_base:
        rates.append(stream.frames / float(stream.duration * stream.time_base))
    rates += [stream.guessed_rate, stream.base_rate]
    for rate in rates:
        if rate and low <= float(rate) <= high:
            return float(rate)
    return DEFAULT_FPS


def _first_line(reason: BaseException) -> str:
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return str(text).splitlines()[0].rstrip(".")
