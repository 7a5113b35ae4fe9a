"""Restorers: a network is shown the new face where it will be seen, and what it changes is added to it.

Only the change goes into the picture, not what the restorer made of the rest, so a restorer that changes nothing
leaves nothing changed, and face and change are painted in one pass. Between two frames that are restored the last
change is added again, where the face still looks as it did: without that the face would be sharp and dull in turns,
and added blindly it would draw closed lips over an open mouth. See ``docs/neural-swap.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.analysis.align import TEMPLATES, crop_affine
from engines.analysis.picture import PictureNetwork
from engines.catalogue.entry import Contract
from engines.errors import EngineError
from engines.faces import Array, Face, Floats, Image
from engines.kernels import restore as kernels
from engines.kernels.mask import feather_convex
from engines.kernels.ready import make_ready
from engines.kernels.warp import Warp, inverse, rescale, sample
from engines.restore.ways import Never, Rarely
from engines.runtime.device import CPU, Device
from engines.swap.base import Progress
from engines.swap.masks.masks import sides_of
from engines.swap.neural.paste import Baker, NeuralLayer, paint

_EDGE: Final = 0.05
"""Width of the slope at the border of the restorer's crop, in parts of its side."""
_LIKENESS: Final = 0.7
"""What CodeFormer's weight is: 0 is the finest picture, 1 the most like the one it was shown."""
_REMEMBERED: Final = 8
_LARGEST: Final = 1024
"""Side of a face with its changes, pixels, at most."""
_ONES: Final = np.ones(3, np.float32)
_NOUGHTS: Final = np.zeros(3, np.float32)


@dataclass(slots=True)
class _Kept:
    """Of one track: what was changed, in which picture, and how many frames ago."""

    difference: Array
    given: Image
    age: int = 0


class Restorer:
    """Runs one restorer on new faces. One thread opens, uses and closes it.

    Args:
        path: The file of a GFPGAN, GPEN or CodeFormer.
        contract: How it wants its picture; or several, told apart by their side.
        strength: How far its picture replaces the one it was shown, 0…1.
        every: It runs on every so many frames of a face.
        device: What it runs on.

    Attributes:
        nodes: Where it really runs: nodes per provider.
        ms: What it takes of a face, on average; known once open.
        rarer: How many times as rarely it runs as was asked.
        off: Whether it does not run at all.
    """

    def __init__(
        self,
        path: Path,
        contract: Contract | Sequence[Contract],
        strength: float = 1.0,
        every: int = 1,
        device: Device = CPU,
    ) -> None:
        self.name = path.stem
        self.nodes: Mapping[str, Mapping[str, int]] = {}
        self.ms = 0.0
        self.rarer, self.off = 1, False
        self.gives_way = (Rarely(self), Never(self)) if strength > 0 else ()
        self._path, self._device, self._strength, self._every = path, device, strength, every
        self._contracts = (contract,) if isinstance(contract, Contract) else tuple(contract)
        self._network: PictureNetwork | None = None
        self._tracks: dict[int, _Kept] = {}

    @property
    def works(self) -> bool:
        """Whether it has anything to do with the next face."""
        return self._strength > 0 and not self.off

    def open(self, progress: Progress, template: str, side: int) -> None:
        """Loads it and warms it up.

        Args:
            progress: Told what is being prepared.
            template: Of the faces that come.
            side: The same, pixels.

        Raises:
            EngineError: It cannot be opened, or is no restorer.
        """
        if self._strength <= 0:
            return
        make_ready(progress, kernels)
        what = "a restorer of faces"
        network = PictureNetwork(
            self._path, self._contracts[0], self._device, what, progress, weight=_LIKENESS
        )
        self._network = network
        pictures = [one for one in network.pictures(3) if one.shape[0] == network.side]
        contract = next((one for one in self._contracts if one.side == network.side), None)
        if len(pictures) != 1 or contract is None:
            sides = " or ".join(str(one.side) for one in self._contracts)
            error = network.wrong(what, f"a picture of three channels and {sides} pixels to another one")
            self.close()
            raise error
        self._contract = contract
        self.nodes = {network.network.name: network.network.nodes}
        self.ms = network.ms / self._every
        progress(f"{self.name} takes {network.ms:.0f} ms a face")
        self._restored = pictures[0][..., ::-1] if contract.channels == "rgb" else pictures[0]
        self._room: Floats | None = (
            None if self._restored.dtype == np.float32 else np.empty(self._restored.shape, np.float32)
        )
        self._scale = 255 * network.in_order(contract.out_std)
        self._offset = 255 * network.in_order(contract.out_mean)
        own = network.side
        corner = own - 1.0
        self._shown = np.empty((own, own), np.float32)
        feather_convex(
            self._shown, sides_of(np.array([[0, 0], [corner, 0], [corner, corner], [0, corner]])), _EDGE * own
        )
        self._live = np.empty((own, own, 3), np.float32)
        self._given: Image = np.empty((own, own, 3), np.uint8)
        self._carried: Array = np.zeros((own, own, 4), np.int16)
        # The finer of the two crops' pixels are those of the face from now on, and a whole number to each of its own.
        finer = own * _eyes(contract.template) / (side * _eyes(template))
        self._times = min(max(1, math.ceil(finer - 0.15)), max(1, _LARGEST // side))
        fine = self._times * side
        self._matched, self._opacity = (
            np.empty((side, side, 3), np.float32),
            np.empty((side, side), np.float32),
        )
        self._face, self._added = np.empty((2, fine, fine, 3), np.float32)
        self._mask = np.empty((fine, fine), np.float32)
        self._warp, self._seen_baker, self._baker = Warp(), Baker(side), Baker(fine)

    def bake(
        self, image: Image, face: Face, new: Floats, mask: Floats, scale: Floats, offset: Floats,
        affine: Floats,
    ) -> NeuralLayer | None:  # fmt: skip
        """Makes a layer of a face, restored. See :meth:`~engines.swap.neural.paste.Baker.bake`.

        Args:
            image: The frame, with the live face.
            face: The live face.
            new: (S, S, 3) float32, B, G, R: the new one.
            mask: (S, S) float32, 0…1: where it is shown.
            scale: (3,) float32: factor of a channel …
            offset: (3,) float32: … and what is added then, for 0…255.
            affine: (2, 3), frame pixels to face pixels.

        Returns:
            The layer, valid until the next one is made; None if something in it is not finite.

        Raises:
            EngineError: The restorer failed.
        """
        network = self._network
        if network is None:
            raise EngineError(f"The restorer {self.name} is used before it was opened.")
        if not (np.isfinite(scale).all() and np.isfinite(offset).all()):
            return None
        try:
            own = crop_affine(self._contract.template, network.side, face.alignment)
            back = inverse(own)
        except (ValueError, ZeroDivisionError):
            return None
        # From the restorer's pixels to those of the face.
        there = np.asarray(affine[:, :2], np.float64) @ back
        there[:, 2] += affine[:, 2]
        if not (np.isfinite(own).all() and np.isfinite(there).all()):
            return None
        seen = self._seen_baker.bake(new, mask, scale, offset, np.asarray(there, np.float32))
        if seen is None:
            return None
        self._warp.crop(image, own, self._live, _ONES, _NOUGHTS)
        np.rint(self._live, out=self._live)
        np.copyto(self._given, self._live, casting="unsafe")
        paint(self._given, seen)
        difference = self._difference(network, face.track)
        if difference is None:
            return None
        rescale(new, self._matched, scale, offset)
        # Whole levels, as a face that is not restored is painted in: what is left is the change alone.
        np.rint(self._matched, out=self._matched)
        np.clip(self._matched, 0, 255, out=self._matched)
        np.multiply(mask, 255, out=self._opacity)
        np.rint(self._opacity, out=self._opacity)
        self._opacity /= 255
        self._grow(self._matched, self._face)
        self._grow(self._opacity, self._mask)
        times = self._times
        fine = np.asarray(affine, np.float64) * times
        fine[:, 2] += (times - 1) / 2
        onto = own[:, :2].astype(np.float64) @ inverse(fine)
        onto[:, 2] += own[:, 2]
        sample(difference, onto, self._added, self._strength / kernels.PLACES)
        self._face += self._added
        return self._baker.bake(self._face, self._mask, _ONES, _NOUGHTS, np.asarray(fine, np.float32))

    def close(self) -> None:
        """Frees everything; may be called twice."""
        network, self._network = self._network, None
        self._tracks.clear()
        if network is not None:
            network.close()

    def _difference(self, network: PictureNetwork, track: int) -> Array | None:
        """What is to be added to the face; None where the restorer gave something that is not finite."""
        kept = self._tracks.pop(track, None)
        if kept is not None and kept.age + 1 < self._every * self.rarer:
            kept.age += 1
            self._tracks[track] = kept
            kernels.carry(kept.difference, kept.given, self._given, self._carried)
            return self._carried
        if kept is None:
            if len(self._tracks) >= _REMEMBERED:
                kept = self._tracks.pop(next(iter(self._tracks)))
            else:
                kept = _Kept(np.zeros_like(self._carried), np.empty_like(self._given))
        network.run(self._given)
        restored = self._restored
        if self._room is not None:
            np.copyto(self._room, restored)
            restored = self._room
        if not kernels.changed(
            restored, self._scale, self._offset, self._given, self._shown, kept.difference
        ):
            return None
        kept.given[:], kept.age = self._given, 0
        self._tracks[track] = kept
        return kept.difference

    def _grow(self, picture: Floats, out: Floats) -> None:
        """A picture of pixels so many times as fine."""
        if self._times == 1:
            out[:] = picture
        else:
            cv2.resize(picture, out.shape[1::-1], dst=out, interpolation=cv2.INTER_LINEAR)


def _eyes(template: str) -> float:
    """Distance of the eyes in a template, parts of its side."""
    points = TEMPLATES[template]
    return float(np.hypot(*(points[1] - points[0])))
