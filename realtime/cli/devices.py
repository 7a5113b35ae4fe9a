"""``doppelcam devices``."""

from __future__ import annotations

import argparse
import json

from realtime.devices import as_json, as_tables
from realtime.doctor.devices import make_virtual_camera
from realtime.show import stdout
from realtime.sinks.virtualcam import list_virtual_cameras
from realtime.sources.camera import list_cameras


def main(args: argparse.Namespace) -> int:
    """Lists what there is."""
    cameras, virtual = list_cameras(), list_virtual_cameras()
    if args.json:
        print(json.dumps(as_json(cameras, virtual), ensure_ascii=False, indent=2))
    else:
        stdout().print(as_tables(cameras, virtual, make_virtual_camera()))
    return 0
