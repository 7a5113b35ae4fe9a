"""How a person in front of a webcam moves: the pose and expression of a head as a function of time.

Everything is looked up, nothing is accumulated: a frame's number and the seed give its motion, whatever was
asked before.
"""

from __future__ import annotations

import math
from typing import Final

from engines.portrait.state import HeadState

_MASK: Final = (1 << 64) - 1

YAW, PITCH, ROLL = math.radians(15), math.radians(8), math.radians(6)
"""The largest turn, nod and tilt, radians."""

_BLINK_EVERY: Final = 3.0
_BLINK_DOWN, _BLINK_SHUT, _BLINK_UP = 0.055, 0.034, 0.085
"""Seconds. Shut for a thirtieth, so that a 30 fps camera sees it shut."""

_SYLLABLE: Final = 0.21
_PHRASE: Final = 3.4
_GLANCE: Final = 1.3
_SACCADE: Final = 0.045


class Motion:
    """The motion of one person.

    Args:
        seed: Another seed moves otherwise.
        fps: Frames a second.
    """

    def __init__(self, seed: int, fps: float) -> None:
        self._seed = _mixed(seed & _MASK)
        self._fps = fps

    def at(self, frame: int) -> HeadState:
        """The state in one frame, numbered from 0."""
        t = frame / self._fps
        talk, jaw, pucker, press, stress = self._speech(t)
        lid = self._blink(t)
        gaze_x, gaze_y = self._gaze(t)
        aside = self._event(t, "aside", every=5.5, rise=0.45, hold=0.9)
        nod = self._event(t, "nod", every=4.5, rise=0.16, hold=0.0)
        joy = self._event(t, "smile", every=5.0, rise=0.4, hold=1.4)
        lift = self._event(t, "brow", every=4.0, rise=0.14, hold=0.35)
        yaw = 0.45 * self._wave(t, "yaw", 0.23) + 0.16 * self._wave(t, "yaw2", 0.8) + 0.75 * aside
        pitch = 0.4 * self._wave(t, "pitch", 0.3) + 0.22 * talk * self._wave(t, "pitch2", 1.4) + 0.5 * nod
        roll = 0.6 * self._wave(t, "roll", 0.21) + 0.15 * self._wave(t, "roll2", 0.7) + 0.3 * aside
        # Eyes run ahead of the head and come back to the lens while it is turned.
        look = 0.7 * gaze_x - 0.35 * _soft(yaw)
        return HeadState(
            yaw=YAW * _soft(yaw),
            pitch=PITCH * _soft(pitch),
            roll=ROLL * _soft(roll),
            x=0.055 * self._wave(t, "x", 0.17) + 0.05 * _soft(yaw),
            y=0.03 * self._wave(t, "y", 0.2) + 0.02 * nod,
            zoom=1.0 + 0.03 * self._wave(t, "zoom", 0.13),
            jaw=jaw,
            press=press,
            smile=max(-1.0, min(1.0, 0.35 * self._wave(t, "mouth", 0.25) + 0.7 * abs(joy) - 0.25 * pucker)),
            pucker=pucker,
            lip=min(1.0, 0.5 * max(0.0, jaw - 0.3) + 0.35 * abs(joy)),
            brow=max(
                -1.0, min(1.0, 0.3 * self._wave(t, "brows", 0.3) + 0.8 * abs(lift) + 0.25 * talk * stress)
            ),
            frown=max(0.0, 0.6 * self._wave(t, "frown", 0.2) - 0.15),
            right_lid=max(lid, 0.06 + 0.1 * abs(joy) + 0.12 * max(0.0, gaze_y)),
            left_lid=max(lid, 0.06 + 0.1 * abs(joy) + 0.12 * max(0.0, gaze_y)),
            gaze_x=max(-1.0, min(1.0, look)),
            gaze_y=gaze_y,
            breath=math.sin(2 * math.pi * t / 4.1),
        )

    def _uniform(self, stream: str, slot: int) -> float:
        """A number in 0…1 that belongs to a slot of a stream."""
        salt = int.from_bytes(stream.encode()[:8], "little")
        return _mixed(_mixed(self._seed ^ salt) + (slot & _MASK) & _MASK) / 2**64

    def _wave(self, t: float, stream: str, hertz: float) -> float:
        """Smooth noise around 0, mostly within −1…1: random knots, joined by a cubic B-spline."""
        at = t * hertz * 2
        slot = math.floor(at)
        u = at - slot
        weights = ((1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3)
        knots = (2 * self._uniform(stream, slot + k) - 1 for k in range(4))
        return 2.0 * sum(w * k for w, k in zip(weights, knots, strict=True)) / 6

    def _event(self, t: float, stream: str, every: float, rise: float, hold: float) -> float:
        """Something that starts, holds and ends now and then: −1…1, the sign drawn for each."""
        slot = math.floor(t / every)
        value = 0.0
        for k in (slot - 1, slot):
            room = every - 2 * rise - hold
            start = k * every + room * self._uniform(stream, 4 * k)
            size = (0.6 + 0.4 * self._uniform(stream, 4 * k + 1)) * (
                -1 if self._uniform(stream, 4 * k + 2) < 0.5 else 1
            )
            if k >= 0:
                value += size * _pulse(t - start, rise, hold, rise)
        return value

    def _blink(self, t: float) -> float:
        slot = math.floor(t / _BLINK_EVERY)
        value = 0.0
        for k in range(max(slot - 1, 0), slot + 2):
            times = [k * _BLINK_EVERY + _BLINK_EVERY * (0.25 + 0.7 * self._uniform("blink", 2 * k))]
            if self._uniform("blink", 2 * k + 1) < 0.15:
                times.append(times[0] + 0.34)
            for middle in times:
                # On a frame, so that every blink is seen shut at any rate.
                middle = round(middle * self._fps) / self._fps
                value = max(
                    value,
                    _pulse(t - middle + _BLINK_SHUT / 2 + _BLINK_DOWN, _BLINK_DOWN, _BLINK_SHUT, _BLINK_UP),
                )
        return value

    def _gaze(self, t: float) -> tuple[float, float]:
        """Where the eyes rest, with fast jumps between; mostly near the lens."""
        slot = math.floor(t / _GLANCE)
        jump = slot * _GLANCE + 0.9 * _GLANCE * self._uniform("jump", slot)
        before, after = self._glance(slot - 1), self._glance(slot)
        k = _smooth((t - jump) / _SACCADE)
        return before[0] + (after[0] - before[0]) * k, before[1] + (after[1] - before[1]) * k

    def _glance(self, slot: int) -> tuple[float, float]:
        far = 1.0 if self._uniform("far", slot) < 0.3 else 0.2
        return (
            far * (2 * self._uniform("gaze_x", slot) - 1),
            far * (1.6 * self._uniform("gaze_y", slot) - 0.6),
        )

    def _speech(self, t: float) -> tuple[float, float, float, float, float]:
        """How much is being said, then jaw, pucker, press and stress of the syllables at this moment."""
        talk = 0.0
        slot = math.floor(t / _PHRASE)
        for k in (slot - 1, slot):
            length = _PHRASE * (0.45 + 0.4 * self._uniform("phrase", 2 * k))
            start = k * _PHRASE + 0.3 + (_PHRASE - length - 0.3) * 0.6 * self._uniform("phrase", 2 * k + 1)
            if k >= 0:
                talk = max(talk, _pulse(t - start, 0.15, length - 0.4, 0.25))
        jaw = pucker = stress = 0.0
        closed = 0.35 + 0.3 * self._wave(t, "press", 0.3)
        first = math.floor(t / _SYLLABLE)
        for k in (first - 1, first, first + 1):
            middle = (k + 0.5 + 0.25 * (self._uniform("when", k) - 0.5)) * _SYLLABLE
            bump = _bump((t - middle) / (0.85 * _SYLLABLE))
            loud = self._uniform("loud", k)
            jaw += bump * (0.12 + 0.75 * loud * loud)
            pucker += bump * max(0.0, 1.6 * self._uniform("round", k) - 0.9)
            stress += bump * max(0.0, loud - 0.6)
            closed += bump * (0.55 if self._uniform("mbp", k) < 0.25 else -0.25)
        press = max(0.0, min(1.0, closed if talk else 0.0)) * talk + max(
            0.0, min(0.8, 0.3 + 0.5 * self._wave(t, "press", 0.3))
        ) * (1 - talk)
        jaw, pucker = min(1.0, jaw) * talk, min(1.0, pucker) * talk
        return talk, jaw, pucker, press * (1 - min(1.0, 2 * jaw)), min(1.0, 2 * stress)


def _mixed(value: int) -> int:
    """SplitMix64: one number out of another, the same on every machine."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def _smooth(x: float) -> float:
    x = min(1.0, max(0.0, x))
    return x * x * (3 - 2 * x)


def _bump(x: float) -> float:
    """1 at 0, 0 from ±1 on."""
    return 0.5 + 0.5 * math.cos(math.pi * x) if abs(x) < 1 else 0.0


def _pulse(t: float, rise: float, hold: float, fall: float) -> float:
    """0 before 0, then up, level, down, and 0 again."""
    return _smooth(t / rise) if t < rise + hold else 1 - _smooth((t - rise - hold) / fall)


def _soft(x: float) -> float:
    """Nearly x when small, never beyond ±1."""
    return math.tanh(1.15 * x)
