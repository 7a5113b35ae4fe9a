"""From a bare checkout to a result in one command, with nothing but Python's standard library.

    python3 -m tools.start demo       another face on an animated portrait: a video and a picture
    python3 -m tools.start test       the tests
    python3 -m tools.start run …      the camera; every verb and option of doppelcam works

Makes ``.venv`` in the checkout once, installs doppelcam into it, and goes on in there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "installed.txt"


def main(arguments: Sequence[str]) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - this file runs before pip can check
        print(f"doppelcam needs Python 3.11 or newer; this is {sys.version.split()[0]}.", file=sys.stderr)
        return 2
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    testing = arguments[0] == "test"
    try:
        python = prepare("dev" if testing else "cpu")
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(map(str, error.cmd))} failed; its own words are above.", file=sys.stderr)
        return 1
    command = [
        python,
        "-m",
        *(["pytest", "-n", "auto", *arguments[1:]] if testing else ["realtime", *arguments]),
    ]
    try:
        # The demo leaves its video where the user stands; tests are found from the checkout.
        return subprocess.call(command, cwd=ROOT if testing else None, env=environment())
    except KeyboardInterrupt:
        return 130


def environment() -> dict[str, str]:
    """Ours, with the checkout importable wherever the user stands."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def prepare(extra: str) -> Path:
    """Makes the environment, or completes it, and returns its Python."""
    python = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = f"{extra} {hashlib.sha256((ROOT / 'pyproject.toml').read_bytes()).hexdigest()}"
    done = STAMP.read_text("utf-8").splitlines() if STAMP.is_file() else []
    if wanted in done and python.is_file():
        return python
    if not python.is_file():
        make_environment()
    print(f"Installing doppelcam[{extra}] into {VENV} (once) …", file=sys.stderr, flush=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [python, "-m", "pip", "install", *quiet, "-e", f"{ROOT}[{extra}]"], check=True, stdout=sys.stderr
    )
    STAMP.write_text("\n".join([*done, wanted]) + "\n", "utf-8")
    return python


def make_environment() -> None:
    """A virtual environment with pip. Debian ships Python without the part that puts pip into one."""
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        install_venv_package()
    venv.EnvBuilder(with_pip=True, clear=VENV.exists()).create(VENV)


def install_venv_package() -> None:
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    line = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", package]
    apt = shutil.which("apt-get")
    if apt is None or os.name == "nt" or os.geteuid() != 0:
        raise SystemExit(
            f"error: this Python cannot put pip into a virtual environment.\nfix: sudo {' '.join(line)}"
        )
    print(f"Installing Debian's {package} (once) …", file=sys.stderr, flush=True)
    subprocess.run([apt, "update", "--quiet"], check=True, stdout=sys.stderr)
    subprocess.run([apt, *line[1:]], check=True, stdout=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
