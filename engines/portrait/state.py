"""Pose and expression of a head, as a few numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeadState:
    """Pose and expression at one moment, relative to the photo.

    Attributes:
        yaw: Radians, positive to the right of the picture.
        pitch: Radians, positive is chin down.
        roll: Radians, clockwise in the picture.
        x: Shift in widths of the face, to the right.
        y: Shift in widths of the face, down.
        zoom: Size, 1 as in the photo.
        jaw: How far the jaw is dropped, 0…1.
        press: How far lips that the photo shows open are closed, 0…1.
        smile: −1…1.
        pucker: Lips drawn together, 0…1.
        lip: Upper lip raised, 0…1.
        brow: Brows up, −1…1.
        frown: Brows drawn together, 0…1.
        right_lid: Right eye closed, 0…1.
        left_lid: Left eye closed, 0…1.
        gaze_x: −1…1, to the right of the picture.
        gaze_y: −1…1, down.
        breath: −1…1, shoulders up.
    """

    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0
    x: float = 0.0
    y: float = 0.0
    zoom: float = 1.0
    jaw: float = 0.0
    press: float = 0.0
    smile: float = 0.0
    pucker: float = 0.0
    lip: float = 0.0
    brow: float = 0.0
    frown: float = 0.0
    right_lid: float = 0.0
    left_lid: float = 0.0
    gaze_x: float = 0.0
    gaze_y: float = 0.0
    breath: float = 0.0
