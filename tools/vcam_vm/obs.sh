#!/bin/bash
# obs.sh - real OBS Studio and the virtual camera, in the machine that vcam_vm.sh boots.
#
#   obs.sh test              OBS shows colour bars that doppelcam's sink sends; its pixels are compared
#   obs.sh pictures FOLDER   the documentation's screenshots, of OBS showing doppelcam at work
#
# Not part of .ci/vm, whose six minutes have no room for it: OBS draws in software inside an emulated machine, and takes
# from 24 seconds to more than two minutes there.
# Exit status: as vcam_vm.sh; 77 where OBS or the machine cannot be had here.
# Settings: PYTHON, the interpreter with the dependencies (.venv/bin/python).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

[ -n "${PYTHON:-}" ] || { [ -x .venv/bin/python ] && PYTHON=$PWD/.venv/bin/python || PYTHON=python3; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/doppelcam-vm
mkdir -p "$cache/numba"
export NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES='' NUMBA_CACHE_DIR=$cache/numba

case ${1-} in
    test)
        out=$cache/out
        command=("$PYTHON" -m pytest tests/vm/test_obs.py -m vm -p no:cacheprovider)
        ;;
    pictures)
        out=$(mkdir -p "${2:?a folder}" && realpath "$2")
        command=("$PYTHON" -m tests.vm.pictures "$out")
        ;;
    *) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
mkdir -p "$out"

tools/vcam_vm/vcam_vm.sh prepare obs-studio obs-plugins xvfb libgl1-mesa-dri xdotool
"$PYTHON" -m tests.vm.warm >/dev/null
tools/vcam_vm/vcam_vm.sh run -t 600 -o "$cache/numba" -o "$out" -e NUMBA_CACHE_DIR -e NUMBA_CPU_NAME \
    -e NUMBA_CPU_FEATURES -e PYTHONUNBUFFERED=1 -e VCAM_VM_OBS=1 -e "VCAM_VM_OUT=$out" -- "${command[@]}"
