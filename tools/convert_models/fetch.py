"""Packages from the npm registry that this machine is set up for, checked before they are opened."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from tools.convert_models.recipes import Package

_ASSETS = "face_mesh_solution_packed_assets.data"
_LOADER = "face_mesh_solution_packed_assets_loader.js"


def integrity(data: bytes) -> str:
    """Subresource integrity (SHA-512) of `data`."""
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode("ascii")


def fetch(package: Package, cache: Path) -> Path:
    """The archive of `package`, downloaded through ``npm pack`` unless `cache` has it.

    Returns:
        Path of the archive, whose integrity is as pinned.

    Raises:
        SystemExit: npm is missing or failed, or the archive is not the pinned one.
    """
    archive = cache / f"{package.name.lstrip('@').replace('/', '-')}-{package.version}.tgz"
    if not archive.is_file():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("npm is not installed. Install Node.js with npm, then run this again.")
        command = [
            npm,
            "pack",
            f"{package.name}@{package.version}",
            "--silent",
            "--pack-destination",
            str(cache),
        ]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
            raise SystemExit(f"npm could not fetch {package.name}@{package.version}.")
    found = integrity(archive.read_bytes())
    if found != package.integrity:
        raise SystemExit(f"{archive} is not {package.name}@{package.version}: its integrity is {found}.")
    return archive


def extract(archive: Path, member: str, folder: Path) -> Path:
    """One file of a package, written into `folder` under its own name.

    Args:
        archive: From :func:`fetch`.
        member: Path below ``package/``; behind ``!``, the name of a file inside the packed assets.
        folder: Where to.

    Raises:
        SystemExit: The package has no such file.
    """
    with tarfile.open(archive) as tar:

        def read(name: str) -> bytes:
            try:
                stream = tar.extractfile(f"package/{name}")
            except KeyError:
                stream = None
            if stream is None:
                raise SystemExit(f"{archive.name} has no file {name}.")
            return stream.read()

        data = packed(read(_ASSETS), read(_LOADER), member[1:]) if member.startswith("!") else read(member)
    path = folder / Path(member.lstrip("!")).name
    path.write_bytes(data)
    return path


def packed(assets: bytes, loader: bytes, name: str) -> bytes:
    """The file called `name` inside packed assets.

    Args:
        assets: The packed files, one after the other.
        loader: The script beside them, whose ``loadPackage`` call says where each begins and ends.
        name: File name without folders.

    Raises:
        SystemExit: There is none.
    """
    call = re.search(rb"loadPackage\((\{.*?\})\);", loader, re.DOTALL)
    for entry in json.loads(call.group(1))["files"] if call else ():
        if Path(entry["filename"]).name == name and 0 <= entry["start"] < entry["end"] <= len(assets):
            return assets[entry["start"] : entry["end"]]
    raise SystemExit(f"The packed assets have no file {name}.")
