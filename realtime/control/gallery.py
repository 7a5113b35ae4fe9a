"""The faces that can be put on: those of the configuration, and photos that were dropped on the page.

Dropped photos never reach a folder of the user's: they lie in a temporary file while they are read, and then in memory,
with no more pixels of each than a swapper needs.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.analysis.source import SourceFace, SourceReader
from engines.errors import PhotoError, UsageError
from engines.faces import Image
from realtime.control.pictures import encoded

LARGEST_UPLOAD: Final = 40 * 1024 * 1024
"""Bytes of a photo: above what cameras make."""
MOST_FACES: Final = 24

_LARGEST: Final = 2048
_ENOUGH: Final = 512.0
"""Pixels of a photo's longer side that are kept, unless its face has less than the second number then."""
_THUMBNAIL: Final = 160
_AROUND: Final = 0.28


@dataclass(frozen=True, slots=True)
class Person:
    """One face that can be put on.

    Attributes:
        id: What to call it in a request.
        name: What a person calls it.
        photos: What a configuration calls it: paths of its photos.
        thumbnail: A square JPEG.
        note: What a person should know about how the photo was read; empty if nothing.
        own: Whether it was dropped on the page, and can be taken away.
    """

    id: str
    name: str
    photos: tuple[Path, ...]
    thumbnail: bytes
    note: str = ""
    own: bool = True


class Gallery:
    """Reads photos once and keeps the faces in them. Photos are read by one thread; any thread may look.

    Args:
        landmarks: 468 or 478, as the tracker reads.
    """

    def __init__(self, landmarks: int) -> None:
        self._landmarks = landmarks
        self._lock = threading.Lock()
        self._people: dict[str, Person] = {}
        self._faces: dict[tuple[Path, int], SourceFace] = {}
        self._reader: SourceReader | None = None
        self._number = 0

    def people(self) -> tuple[Person, ...]:
        """Everybody, in the order in which they came."""
        with self._lock:
            return tuple(self._people.values())

    def person(self, name: str) -> Person:
        """Somebody by id.

        Raises:
            UsageError: There is nobody of that id.
        """
        with self._lock:
            person = self._people.get(name)
        if person is None:
            raise UsageError("There is no such face in the gallery.", "Load the page anew.")
        return person

    def wearing(self, photos: Sequence[Path]) -> str:
        """Id of the one whose photos these are; empty if that is nobody in the gallery."""
        return next((one.id for one in self.people() if one.photos == tuple(photos)), "")

    def add_files(self, photos: Sequence[Path]) -> Person:
        """Somebody from the configuration. Called by the reading thread.

        Raises:
            PhotoError: A photo cannot be used.
        """
        faces = self.read(photos, self._landmarks)
        return self._add(photos[0].stem, tuple(photos), faces, own=False)

    def add_upload(self, name: str, data: bytes) -> Person:
        """Somebody whose photo was dropped on the page. Called by the reading thread.

        Args:
            name: What the photo is called; anything may be in it.
            data: The file.

        Raises:
            PhotoError: It cannot be used; the sentence says why.
            UsageError: The gallery is full.
        """
        if len(self.people()) >= MOST_FACES:
            raise UsageError(f"The gallery has {MOST_FACES} faces and takes no more.", "Take one away first.")
        shown = plain_name(name)
        with tempfile.TemporaryDirectory(prefix="doppelcam-") as folder:
            # Its name is in every sentence about it, so it must not be one that we made up.
            path = Path(folder) / shown
            path.write_bytes(data)
            try:
                face = kept(self._source_reader().read(path))
            except PhotoError as error:
                # Where it lay for a moment helps nobody.
                raise PhotoError(error.what.replace(str(path), shown), error.fix) from None
        with self._lock:
            self._number += 1
            key = Path(f"dropped-{self._number}") / shown
            self._faces[key, self._landmarks] = face
        return self._add(Path(shown).stem, (key,), [face], own=True)

    def remove(self, name: str) -> None:
        """Forgets somebody who was dropped on the page.

        Raises:
            UsageError: There is nobody of that id, or it is in the configuration.
        """
        person = self.person(name)
        if not person.own:
            raise UsageError(f"{person.name} is in the configuration.", "Change --face to leave it out.")
        with self._lock:
            self._people.pop(name, None)
            for photo in person.photos:
                self._faces.pop((photo, self._landmarks), None)

    def read(self, photos: Sequence[Path], landmarks: int) -> Sequence[SourceFace]:
        """The faces in some photos; those that were read before come from memory. Called by the reading thread.

        Raises:
            PhotoError: A photo cannot be used.
            UsageError: There is none.
        """
        if not photos:
            raise UsageError("There is no face to put on.", "Drop a photo on the page first.")
        faces = []
        for photo in photos:
            with self._lock:
                face = self._faces.get((photo, landmarks))
            if face is None:
                face = kept(self._source_reader().read(photo))
                with self._lock:
                    self._faces[photo, landmarks] = face
            faces.append(face)
        return faces

    def close(self) -> None:
        """Frees the networks and forgets everybody. Called by the reading thread."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        with self._lock:
            self._people.clear()
            self._faces.clear()

    def _add(self, name: str, photos: tuple[Path, ...], faces: Sequence[SourceFace], own: bool) -> Person:
        note = " ".join(face.note for face in faces if face.note)
        with self._lock:
            self._number += 1
            person = Person(f"face-{self._number}", name, photos, thumbnail(faces[0]), note, own)
            self._people[person.id] = person
        return person

    def _source_reader(self) -> SourceReader:
        if self._reader is None:
            self._reader = SourceReader(self._landmarks)
        return self._reader


def plain_name(name: str) -> str:
    """The last part of a file's name, of characters that no system and no page takes for anything else."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    plain = "".join(c for c in last if c.isalnum() or c in " ._-()").strip(" .")
    # Of a long name both ends are kept; most systems end at 255 bytes.
    return plain if 0 < len(plain) <= 60 else f"{plain[:40]}…{plain[-12:]}" if plain else "photo"


def kept(face: SourceFace) -> SourceFace:
    """A photo with no more pixels than any swapper uses: all of it, since some show more than the face."""
    width = float(np.ptp(face.points[:, 0]))
    factor = min(1.0, max(_LARGEST / max(face.image.shape[:2]), _ENOUGH / max(width, 1.0)))
    if factor == 1:
        return face
    size = (round(face.image.shape[1] * factor), round(face.image.shape[0] * factor))
    image = np.asarray(cv2.resize(face.image, size, interpolation=cv2.INTER_AREA), np.uint8)
    alpha = None if face.alpha is None else cv2.resize(face.alpha, size, interpolation=cv2.INTER_AREA)
    return replace(face, image=image, points=face.points * np.float32(factor), alpha=alpha)


def thumbnail(face: SourceFace) -> bytes:
    """A square around the face, as JPEG."""
    low, high = face.points[:, :2].min(0), face.points[:, :2].max(0)
    centre, side = (low + high) / 2, float((high - low).max()) * (1 + 2 * _AROUND)
    scale = _THUMBNAIL / side
    affine = np.array(
        [[scale, 0, _THUMBNAIL / 2 - scale * centre[0]], [0, scale, _THUMBNAIL / 2 - scale * centre[1]]]
    )
    small: Image = np.asarray(
        cv2.warpAffine(
            face.image,
            affine,
            (_THUMBNAIL, _THUMBNAIL),
            flags=cv2.INTER_AREA,
            borderMode=cv2.BORDER_REPLICATE,
        ),
        np.uint8,
    )
    return encoded(small)
