"""A picture as virtual cameras and video encoders take it: three planes, I420."""

from __future__ import annotations

import threading

import cv2
import numpy as np

from engines.faces import Array, Image
from engines.kernels.pool import Lease, Pool


class Planar:
    """An I420 picture (BT.601, limited range) in the memory of the host. It is shared, and read-only.

    Who wants BGR gets it from :meth:`bgr`, made once, in the thread of whoever asks first.

    Args:
        i420: (H·3/2, W) uint8: Y, then U, then V; H and W even.
        lease: What keeps that memory.
        pool: Buffers for BGR, (H, W, 3) uint8.
    """

    __slots__ = ("_bgr", "_lock", "_pool", "i420", "lease")

    def __init__(self, i420: Image, lease: Lease[Array], pool: Pool[Image]) -> None:
        self.i420: Image = i420.view()
        self.i420.flags.writeable = False
        self.lease = lease
        self._pool = pool
        self._bgr: Lease[Image] | None = None
        self._lock = threading.Lock()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""
        return self.i420.shape[1], self.i420.shape[0] * 2 // 3

    def bgr(self) -> Image:
        """(H, W, 3) uint8 BGR, read-only; its colours are shared by two by two pixels. Valid as long as this is."""
        with self._lock:
            if self._bgr is None:
                lease = self._pool.lease()
                cv2.cvtColor(self.i420, cv2.COLOR_YUV2BGR_I420, dst=lease.buffer)
                self._bgr = lease
        image = self._bgr.buffer.view()
        image.flags.writeable = False
        return image

    def sample(self, columns: int, rows: int) -> Image:
        """(rows, columns, 3) uint8 BGR: some pixels, evenly; nothing of the picture's size is made."""
        width, height = self.size
        x = np.arange(columns) * width // columns
        y = np.arange(rows) * height // rows
        few = np.empty((rows, columns, 3), np.uint8)
        chroma = self.i420[height:].reshape(2, height // 2, width // 2)
        few[:, :, 0] = self.i420[y[:, None], x]
        few[:, :, 1:] = chroma[:, y[:, None] // 2, x // 2].transpose(1, 2, 0)
        return np.asarray(_bgr_of(few), np.uint8)


def _bgr_of(yuv: Image) -> Array:
    """BGR of pixels of Y, U and V, by the formula of BT.601."""
    bright = np.float32(1.164383) * (yuv[:, :, :1].astype(np.float32) - 16)
    blue, red = (yuv[:, :, k : k + 1].astype(np.float32) - 128 for k in (1, 2))
    parts = [
        bright + np.float32(2.017232) * blue,
        bright - np.float32(0.391762) * blue - np.float32(0.812968) * red,
        bright + np.float32(1.596027) * red,
    ]
    return np.asarray(np.clip(np.rint(np.concatenate(parts, 2)), 0, 255))
