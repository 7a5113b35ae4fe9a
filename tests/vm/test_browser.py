"""A browser lists the virtual camera by its label and shows what was sent."""

from __future__ import annotations

import numpy as np
import pytest

from tests.vm import rig
from tests.vm.browser import chromium


@pytest.mark.timeout(170)
def test_chromium_shows_every_size_under_the_devices_label(newest_loopback):
    import time
    t=time.time()
    with chromium(120) as browser:
        for number, size in enumerate(rig.SIZES):
            with rig.sending(rig.bars(size), fps=5):
                seen = browser.look(rig.LABEL, size, 3, 120 if number == 0 else 40)
            print(time.time()-t, {k:v for k,v in seen.items() if k!="row"})
            row = np.array(seen["row"], np.uint8).reshape(1, -1, 4)
            print(rig.off_by(np.repeat(row[:, :, :3], 8, 0), swap=True), [row[0,(2*i+1)*size[0]//16].tolist() for i in range(8)])
