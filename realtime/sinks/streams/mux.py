"""Pictures and sound as one live stream of bytes: H.264 with AAC or Opus, nothing held back."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from engines.errors import UsageError
from engines.faces import Image
from realtime.audio.base import RATE, Samples
from realtime.sinks import bt709

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.video.codeccontext import VideoCodecContext
    from av.video.stream import VideoStream

ENCODERS: Final = ("h264_nvenc", "libx264")
"""Of H.264, the best first."""

_TICK: Final = Fraction(1, 90_000)
_BITS: Final = 0.09
"""Bits a pixel and frame when no rate is asked for: what x264's fastest preset needs for a talking head."""
_LEAST_KBPS, _MOST_KBPS = 500, 20_000
_SOUND_BPS: Final = 128_000
_OPTIONS: Final = {
    # Sliced threads and no look-ahead: a frame in, its packet out.
    "libx264": {"preset": "ultrafast", "tune": "zerolatency", "forced-idr": "1", "sc_threshold": "0"},
    "h264_nvenc": {
        "preset": "p3", "tune": "ull", "zerolatency": "1", "delay": "0", "rc": "cbr", "forced-idr": "1",
    },
}  # fmt: skip


class Out(Protocol):
    """What bytes go into."""

    def write(self, data: bytes) -> int:
        """Takes all of them."""
        ...


@dataclass(frozen=True, slots=True)
class Shape:
    """What a stream consists of.

    Attributes:
        encoder: One of :data:`ENCODERS`.
        size: Width and height, pixels, both even.
        fps: Pictures a second, about.
        kbps: Of the pictures; None for what suits the size.
        keyframes_s: Seconds from one keyframe to the next: how long who joins late waits for a picture.
        sound: ``aac`` or ``libopus``; empty for a stream without sound.
        baseline: Whether browsers' oldest H.264 profile is wanted.
        title: Written into the stream, so that it says what it shows.
    """

    encoder: str
    size: tuple[int, int]
    fps: float
    kbps: int | None = None
    keyframes_s: float = 2.0
    sound: str = ""
    baseline: bool = False
    title: str = ""

    @property
    def bits(self) -> int:
        """Bits a second of the pictures."""
        if self.kbps is not None:
            return self.kbps * 1000
        wanted = self.size[0] * self.size[1] * self.fps * _BITS / 1000
        return round(min(max(wanted, _LEAST_KBPS), _MOST_KBPS) / 100) * 100_000


def choose_encoder(size: tuple[int, int], fps: float) -> str:
    """The first of :data:`ENCODERS` that opens on this machine.

    Raises:
        UsageError: None does.
    """
    import av
    from av.codec import CodecContext

    why = ""
    for name in ENCODERS:
        try:
            context = CodecContext.create(name, "w")
            _configure(context, Shape(name, size, fps))
            context.options = dict(_OPTIONS[name])
            context.open()
        except (av.FFmpegError, OSError, ValueError) as error:
            why = str(error)
        else:
            return name
    raise UsageError(
        f"No encoder of H.264 can be used: {why}.", "Reinstall PyAV: pip install --force-reinstall av"
    )


class Mux:
    """Encodes and packs into NUT, whose header says all there is to know. One thread uses it.

    Args:
        shape: What the stream consists of.
        out: Takes the bytes; what its ``write`` raises comes out of :meth:`picture` and :meth:`sound`.

    Raises:
        OSError: The encoder does not open.
    """

    def __init__(self, shape: Shape, out: Out) -> None:
        import av
        from av.video.reformatter import VideoReformatter

        self._shape = shape
        self._container = av.open(
            cast("Any", out), "w", format="nut",
            container_options={
                "flush_packets": "1", "max_interleave_delta": "100000", "max_delay": "0", "muxdelay": "0",
            },
        )  # fmt: skip
        # For MPEG-TS, which knows no comment, too.
        self._container.metadata.update(comment=shape.title, service_name=shape.title)
        self._video = self._add_video()
        self._audio = self._add_audio() if shape.sound else None
        self._reformatter = VideoReformatter()
        self._last_key: int | None = None
        self._last_pts = -90

    def picture(self, image: Image, at_ns: int) -> None:
        """Sends a picture.

        Args:
            image: H×W×3 uint8 BGR of the size of the stream. Read, not kept.
            at_ns: When it is shown, counted from the start of the stream.
        """
        from av.video.frame import PictureType

        picture = bt709.converted(image, self._reformatter)
        # A millisecond, so that no container rounds two pictures to the same time.
        pts = max(at_ns * 9 // 100_000, self._last_pts + 90)
        picture.pts, picture.time_base = pts, _TICK
        self._last_pts = pts
        # By time and not by count: a stalled network leaves pictures out.
        if self._last_key is None or pts - self._last_key >= self._shape.keyframes_s * 90_000 - 45:
            picture.pict_type, self._last_key = PictureType.I, pts
        else:
            picture.pict_type = PictureType.NONE
        self._container.mux(self._video.encode(picture))

    def sound(self, first: int, samples: Samples) -> None:
        """Sends sound.

        Args:
            first: Number of its first sample, counted from the start of the stream.
            samples: (n, 2) float32, -1…1.
        """
        if self._audio is None or not len(samples):
            return
        from av.audio.frame import AudioFrame

        frame = AudioFrame.from_ndarray(samples.clip(-1, 1).reshape(1, -1), format="flt", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = RATE, first, Fraction(1, RATE)
        self._container.mux(self._audio.encode(frame))

    def finish(self) -> None:
        """Sends what the encoders still hold, and the end."""
        self._container.mux(self._video.encode(None))
        if self._audio is not None:
            self._container.mux(self._audio.encode(None))
        self._container.close()

    def _add_video(self) -> VideoStream:
        shape = self._shape
        options = dict(_OPTIONS[shape.encoder])
        if shape.baseline:
            options["profile"] = "baseline"
        stream = cast(
            "VideoStream",
            self._container.add_stream(
                shape.encoder, rate=Fraction(shape.fps).limit_denominator(1001), options=options
            ),
        )
        _configure(stream.codec_context, shape)
        stream.time_base = _TICK
        return stream

    def _add_audio(self) -> AudioStream:
        options = {"application": "audio", "frame_duration": "20"} if self._shape.sound == "libopus" else {}
        stream = cast(
            "AudioStream", self._container.add_stream(self._shape.sound, rate=RATE, options=options)
        )
        context = stream.codec_context
        context.layout = "stereo"
        context.bit_rate = _SOUND_BPS
        context.time_base = Fraction(1, RATE)
        return stream


def _configure(context: VideoCodecContext, shape: Shape) -> None:
    context.width, context.height = shape.size
    bt709.declare(context)
    context.time_base = _TICK
    context.framerate = Fraction(shape.fps).limit_denominator(1001)
    context.bit_rate = shape.bits
    # Half a second of leeway: what is sent at once must fit the line.
    context.options = context.options | {"maxrate": str(shape.bits), "bufsize": str(shape.bits // 2)}
    # Longer than asked for: keyframes are made by time, in picture().
    context.gop_size = max(2, round(shape.fps * shape.keyframes_s * 2))
    context.max_b_frames = 0
