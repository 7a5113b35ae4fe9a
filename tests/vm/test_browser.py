"""A browser lists the virtual camera by its label and shows what was sent."""

from __future__ import annotations

import numpy as np
import pytest

from tests.vm import rig
from tests.vm.browser import chromium


@pytest.mark.timeout(170)
def test_chromium_shows_every_size_under_the_devices_label(newest_loopback):
    with chromium(120) as browser:
        for number, size in enumerate(rig.SIZES):
            with rig.sending(rig.bars(size), fps=5):
                # The first look waits until the browser is up.
                seen = browser.look(rig.LABEL, size, 3, 120 if number == 0 else 40)
            assert "error" not in seen, seen
            assert (seen["label"], tuple(seen["size"])) == (rig.LABEL, size)
            row = np.array(seen["row"], np.uint8).reshape(1, -1, 4)[:, :, :3]
            assert rig.off_by(row.repeat(8, axis=0), swap=True) <= 3
