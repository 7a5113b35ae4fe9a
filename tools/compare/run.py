"""One engine on one person's photos and one clip: every figure of a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from engines.analysis.photo import read_photo
from engines.errors import PhotoError, UsageError
from engines.faces import Floats, Image
from realtime.settings.config import Config
from tools.compare import measures
from tools.compare.clips import Clip
from tools.compare.identity import IdentityNetwork
from tools.compare.measures import Shift
from tools.compare.observe import Observer
from tools.compare.rig import STAGES, Rig, Shot
from tools.compare.trials import Lag, Stillness, Trials

EVERY: Final = 10
"""Identity, expression, seam and untouched pixels are looked at in every tenth frame."""
_WARM_UP: Final = 5
_OPEN: Final = 0.75

Watch = Callable[[int, Image, Image, Floats, bool], None]
"""Told of every frame: its number, the live picture, the output, the live landmarks, whether it was swapped."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured; a figure is NaN where there was nothing to measure it on.

    Attributes:
        photo: Whose face was put on.
        clip: On whom.
        size: Width and height of the frames, pixels.
        face: Median width of the live face, pixels.
        frames: How many there were.
        bare: In how many of them a face was seen and not swapped.
        out_photo: Cosine between identity of output and photo.
        out_live: Between output and live face.
        live_photo: Between live face and photo: what out_photo starts from.
        expression: See :func:`~tools.compare.measures.expression_error`.
        gaze_median: Distance of the output's iris from where the live one is, widths of the eye.
        gaze_p95: The same, in the worst twentieth of the frames.
        lids_r: Correlation of the lids' opening, live and output, in the same frame.
        lids_lag: Frames by which the output's lids are late.
        blinks: How often the live eyes were shut.
        blinks_seen: In how many of these the output's were, in a same frame.
        tremble: On a frozen frame with noise, px of a face 430 px wide.
        tremble_raw: The same with unfiltered landmarks.
        lag_ms: Behind a known to-and-fro motion.
        lag_raw_ms: The same with unfiltered landmarks.
        seam: Gradient across the oval, output over live.
        untouched: Largest difference of a pixel outside the face region.
        ms: Per stage and together, median and 95th percentile.
    """

    photo: str
    clip: str
    size: tuple[int, int]
    face: float
    frames: int
    bare: int
    out_photo: float
    out_live: float
    live_photo: float
    expression: float
    gaze_median: float
    gaze_p95: float
    lids_r: float
    lids_lag: float
    blinks: int
    blinks_seen: int
    tremble: float
    tremble_raw: float
    lag_ms: float
    lag_raw_ms: float
    seam: float
    untouched: float
    ms: dict[str, tuple[float, float]]


@dataclass(slots=True)
class _Series:
    """What is collected from frame to frame."""

    cosines: list[tuple[float, float, float]] = field(default_factory=list)
    live: list[Floats] = field(default_factory=list)
    output: list[Floats] = field(default_factory=list)
    edges: list[tuple[float, float]] = field(default_factory=list)
    untouched: int = 0
    gaze: list[float] = field(default_factory=list)
    lids_live: list[float] = field(default_factory=list)
    lids_output: list[float] = field(default_factory=list)
    looks: list[tuple[float, float]] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    ms: list[tuple[float, float, float]] = field(default_factory=list)
    bare: int = 0
    frames: int = 0


class Comparison:
    """Measures one engine with one person's photos.

    Args:
        config: Photos, engine and everything else that changes the picture.
        name: What to call the person in a table.
        identity: Tells whose face it is.
        observer: Looks at live and output.
        every: Identity, expression, seam and untouched pixels are looked at in every so many frames.

    Raises:
        DoppelcamError: A photo cannot be used.
    """

    def __init__(
        self, config: Config, name: str, identity: IdentityNetwork, observer: Observer, every: int = EVERY
    ) -> None:
        self._name, self._identity, self._observer, self._every = name, identity, observer, every
        self._config = config
        self._photo = np.stack([self._whose(path) for path in config.face])

    def run(self, clip: Clip, watch: Watch | None = None) -> Row:
        """Puts a whole clip through and measures it.

        Args:
            clip: What to put the face on.
            watch: Told of every frame with a face.

        Raises:
            UsageError: The clip cannot be read, or shows no face that could be swapped.
            EngineError: The engine failed.
        """
        # An engine remembers whom it saw; each clip gets one that knows nobody.
        with closing(Rig(self._config)) as rig, closing(Trials(rig, self._observer)) as trials:
            return self._run(clip, rig, trials, watch)

    def jaw(self, clip: Clip) -> Shift:
        """See :meth:`~tools.compare.trials.Trials.jaw`."""
        with closing(Rig(self._config)) as rig, closing(Trials(rig, self._observer)) as trials:
            return trials.jaw(clip)

    def _run(self, clip: Clip, rig: Rig, trials: Trials, watch: Watch | None) -> Row:
        series, observer = _Series(), self._observer
        observer.forget()
        frozen: tuple[Image, Floats] | None = None
        size = (0, 0)
        with rig.tracking() as tracker:
            for frame, seconds in clip.read():
                number, size = series.frames, frame.size
                series.frames += 1
                shot = rig.shoot(tracker, frame.image, seconds)
                points = observer.follow(frame.image)
                if points is None:
                    series.lids_live.append(math.nan)
                    series.lids_output.append(math.nan)
                    continue
                self._look(series, number, frame.image, shot, points)
                if watch is not None:
                    watch(number, frame.image, shot.output, points, bool(shot.faces))
                if shot.faces and number % self._every == 0 and (frozen is None or len(series.cosines) <= 3):
                    frozen = frame.image.copy(), points.copy()
        if not series.cosines or frozen is None:
            raise UsageError(
                f"No face was swapped in {clip.name}.", "Take a clip that shows one in most of its frames."
            )
        return self._row(series, clip.name, size, trials.stillness(*frozen), trials.lag(*frozen))

    def _whose(self, path: Path) -> Floats:
        image = read_photo(path)
        points = self._observer.find(image)
        if points is None:
            raise PhotoError(f"There is no face in {path.name}.", "Choose a photo of one person's face.")
        return self._identity.embed(image, points)

    def _look(self, series: _Series, number: int, image: Image, shot: Shot, points: Floats) -> None:
        observer, output = self._observer, shot.output
        series.widths.append(float(np.ptp(points[:, 0])))
        fine = observer.refined(image, points)
        opened, looking = measures.opening(fine), measures.gaze(fine)
        series.lids_live.append(opened)
        if not shot.faces:
            # What is not swapped is as good as live; it is counted, and not measured.
            series.bare += 1
            series.lids_output.append(math.nan)
            return
        series.ms.append(shot.ms)
        fine = observer.refined(output, points)
        series.lids_output.append(measures.opening(fine))
        apart = np.linalg.norm(measures.gaze(fine) - looking, axis=1)
        series.looks.append((opened, float(apart.mean())))
        if number % self._every:
            return
        mesh = observer.mesh(output, points)
        live, shown = self._identity.embed(image, points), self._identity.embed(output, mesh)
        series.cosines.append(
            (float((self._photo @ shown).mean()), float(shown @ live), float((self._photo @ live).mean()))
        )
        series.live.append(points)
        series.output.append(mesh)
        series.edges.append((measures.edge(output, points), measures.edge(image, points)))
        series.untouched = max(series.untouched, measures.untouched(image, output, points))

    def _row(self, series: _Series, clip: str, size: tuple[int, int], still: Stillness, late: Lag) -> Row:
        out_photo, out_live, live_photo = np.mean(series.cosines, 0).tolist()
        opened, apart = np.array(series.looks).T
        # An iris behind a lid is guessed by the network.
        apart = apart[opened >= _OPEN * np.median(opened)]
        lids = measures.shift(series.lids_output, series.lids_live)
        blinks, seen = measures.blinks(series.lids_live, series.lids_output)
        before, after = np.array(series.edges).T[::-1]
        ms = np.array(series.ms[_WARM_UP:] or series.ms)
        ms = np.c_[ms, ms.sum(1)]
        spread = np.percentile(ms, (50, 95), axis=0).T.tolist()
        return Row(
            photo=self._name,
            clip=clip,
            size=size,
            face=float(np.median(series.widths)),
            frames=series.frames,
            bare=series.bare,
            out_photo=out_photo,
            out_live=out_live,
            live_photo=live_photo,
            expression=measures.expression_error(series.live, series.output),
            gaze_median=float(np.median(apart)),
            gaze_p95=float(np.percentile(apart, 95)),
            lids_r=_number(lids.together),
            lids_lag=_number(lids.lag),
            blinks=blinks,
            blinks_seen=seen,
            tremble=still.filtered,
            tremble_raw=still.raw,
            lag_ms=_number(late.filtered),
            lag_raw_ms=_number(late.raw),
            seam=float(after.mean() / max(before.mean(), 1e-6)),
            untouched=float(series.untouched),
            ms={name: (p50, p95) for name, (p50, p95) in zip((*STAGES, "all"), spread, strict=True)},
        )


def mean_of(rows: Sequence[Row]) -> Row:
    """The mean of every figure; counts are added up, and of untouched pixels the worst counts."""

    def mean(name: str) -> float:
        values = [getattr(row, name) for row in rows]
        seen = [value for value in values if math.isfinite(value)]
        return float(np.mean(seen)) if seen else math.nan

    averaged = (
        "face", "out_photo", "out_live", "live_photo", "expression", "gaze_median", "gaze_p95", "lids_r", "lids_lag",
        "tremble", "tremble_raw", "lag_ms", "lag_raw_ms", "seam",
    )  # fmt: skip
    added = {
        name: sum(getattr(row, name) for row in rows) for name in ("frames", "bare", "blinks", "blinks_seen")
    }
    ms = {
        name: (
            float(np.mean([row.ms[name][0] for row in rows])),
            float(np.mean([row.ms[name][1] for row in rows])),
        )
        for name in rows[0].ms
    }
    figures: dict[str, Any] = {**{name: mean(name) for name in averaged}, **added}
    worst = max(row.untouched for row in rows)
    return replace(rows[0], photo="mean", clip="", untouched=worst, ms=ms, **figures)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
