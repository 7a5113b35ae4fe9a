"""``python -m realtime`` is ``doppelcam``."""

from __future__ import annotations

import sys

from realtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
