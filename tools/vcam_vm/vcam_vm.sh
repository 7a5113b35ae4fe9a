#!/bin/bash
# vcam_vm.sh - run a command against real V4L2 devices: v4l2loopback as virtual camera and vivid as webcam, in a
# virtual machine that needs no kernel module and no KVM on this one.  See README.md beside this file.
#
#   vcam_vm.sh prepare [PACKAGE]...      fetch and build what is needed; PACKAGEs are wanted beside it
#   vcam_vm.sh run [OPTION]... -- COMMAND [ARG]...
#
#   -t SECS     limit for boot and command (default 600)
#   -o DIR      a folder that the guest may write, under the same path; may be repeated.
#               Everything else that COMMAND writes lies in the guest's memory and is lost.
#   -e VAR      hand on an environment variable: VAR or VAR=VALUE; may be repeated
#
# Exit status: COMMAND's; 2 usage; 77 what is needed cannot be had on this machine; 124 time limit;
# 125 the guest ended without a result.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
VCAM_VM_DIR=${VCAM_VM_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/doppelcam-vm}
VCAM_VM_CPUS=${VCAM_VM_CPUS:-$(nproc)}
VCAM_VM_MEMORY=${VCAM_VM_MEMORY:-3072}
VCAM_VM_ACCEL=${VCAM_VM_ACCEL:-tcg}
# Without AVX2, whose emulation in qemu 7.2 gives wrong results: NumPy's argsort crashes with it.
VCAM_VM_CPU=${VCAM_VM_CPU:-Nehalem}
VCAM_VM_LOOPBACK=${VCAM_VM_LOOPBACK:-devices=1 video_nr=10 exclusive_caps=1 card_label=doppelcam}
VCAM_VM_VERSION=${VCAM_VM_VERSION:-}
VCAM_VM_VIVID=${VCAM_VM_VIVID:-n_devs=1 node_types=0x1 num_inputs=1 input_types=0 vid_cap_nr=20}
NOT_HERE=77

say() { printf 'vcam_vm: %s\n' "$*" >&2; }
seconds_since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'; }
cannot() {
    say "CANNOT BE HAD HERE: $1"
    [ $# -lt 2 ] || say "$2"
    exit $NOT_HERE
}

# The newest of the versions of v4l2loopback that were built, or the one asked for.
loopback_module() {
    local version
    version=$(find "$VCAM_VM_DIR/loopback" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -V |
        if [ -n "$VCAM_VM_VERSION" ]; then grep -Fx "$VCAM_VM_VERSION" || true; else tail -1; fi)
    [ -n "$version" ] || { say "v4l2loopback ${VCAM_VM_VERSION:-of any version} was not built"; return 2; }
    echo "$VCAM_VM_DIR/loopback/$version/v4l2loopback.ko"
}

# What guest.sh is told: one assignment a line, quoted for bash.
settings() {
    local module=$1 name pair
    shift
    printf '%s=%q\n' SHARE "$RUN/share" ABI "$(cat "$VCAM_VM_DIR/abi")" MODULES "$VCAM_VM_DIR/root/lib/modules" \
        LOOPBACK_MODULE "$module" LOOPBACK "$VCAM_VM_LOOPBACK" VIVID "$VCAM_VM_VIVID" FOLDER "$PWD"
    printf 'OUTS=('; printf ' %q' "${outs[@]}"; printf ' )\n'
    printf 'COMMAND=('; printf ' %q' "$@"; printf ' )\n'
    # A small environment of known content, then the caller's own.
    printf 'export HOME=%q LANG=C.UTF-8 VCAM_VM=1 VCAM_VM_MODULES=%q\n' "$HOME" "$VCAM_VM_DIR/loopback"
    for name in PATH VIRTUAL_ENV PYTHONPATH PYTHONDONTWRITEBYTECODE CI; do
        [ -z "${!name-}" ] || printf 'export %s=%q\n' "$name" "${!name}"
    done
    for pair in "${environment[@]}"; do printf 'export %q=%q\n' "${pair%%=*}" "${pair#*=}"; done
}

run() {
    local limit=600 outs=() environment=() number=0 folder
    while [ $# -gt 0 ]; do case $1 in
        -t) limit=$2; shift 2 ;;
        -o) mkdir -p "$2"; outs+=("$(realpath "$2")"); shift 2 ;;
        -e) case $2 in *=*) environment+=("$2") ;; *) environment+=("$2=${!2-}") ;; esac; shift 2 ;;
        --) shift; break ;;
        -*) say "unknown option $1"; return 2 ;;
        *) break ;;
    esac; done
    [ $# -gt 0 ] || { say "no command was given"; return 2; }
    is_prepared || { source "$HERE/prepare.sh"; prepare; }

    local module began rc=0 qemu
    module=$(loopback_module) || return 2
    began=$(date +%s.%N)
    RUN=$(mktemp -d "$VCAM_VM_DIR/run.XXXXXX")
    trap 'rm -rf "$RUN"' EXIT
    mkdir "$RUN/share"
    settings "$module" "$@" >"$RUN/settings"
    cp "$HERE/guest.sh" "$RUN/guest.sh"

    local folders=(
        -fsdev "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"
        -device "virtio-9p-pci,fsdev=root,mount_tag=root"
        -fsdev "local,id=share,path=$RUN/share,security_model=none"
        -device "virtio-9p-pci,fsdev=share,mount_tag=share"
    )
    for folder in "${outs[@]}"; do
        number=$((number + 1))
        folders+=(-fsdev "local,id=out$number,path=$folder,security_model=none"
                  -device "virtio-9p-pci,fsdev=out$number,mount_tag=out$number")
    done
    local accel=(-accel "tcg,thread=multi,tb-size=1024" -cpu "$VCAM_VM_CPU")
    [ "$VCAM_VM_ACCEL" != kvm ] || accel=(-accel kvm -cpu host)

    timeout -k 10 "$limit" qemu-system-x86_64 "${accel[@]}" -M q35 -smp "$VCAM_VM_CPUS" -m "$VCAM_VM_MEMORY" \
        -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$VCAM_VM_DIR/vmlinuz" -initrd "$VCAM_VM_DIR/initrd.gz" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable random.trust_cpu=on vcam_vm.run=$RUN" \
        -chardev "file,id=console,path=$RUN/console" -serial chardev:console \
        -device virtio-serial-pci -chardev stdio,id=out,signal=off -device virtconsole,chardev=out \
        "${folders[@]}" </dev/null &
    qemu=$!
    trap 'kill "$qemu" 2>/dev/null; exit 143' TERM INT HUP
    wait "$qemu" || rc=$?
    trap - TERM INT HUP

    cp "$RUN/console" "$VCAM_VM_DIR/last-console" 2>/dev/null || true
    cp "$RUN/share/dmesg" "$VCAM_VM_DIR/last-dmesg" 2>/dev/null || true
    if [ -e "$RUN/share/rc" ]; then
        rc=$(cat "$RUN/share/rc")
    elif [ "$rc" = 124 ] || [ "$rc" = 137 ]; then
        rc=124
        say "the time limit of $limit s has passed"
    else
        say "the guest ended without a result (qemu: $rc); its console ends:"
        tail -15 "$RUN/console" >&2 || true
        rc=125
    fi
    say "ended with $rc after $(seconds_since "$began") s, $(boot_time "$began")"
    return "$rc"
}

boot_time() {
    local started
    started=$(stat -c %.Y "$RUN/share/started" 2>/dev/null) || { echo "never booted"; return; }
    awk -v a="$1" -v b="$started" 'BEGIN { printf "%.1f of them to boot", b - a }'
}

# Built by this very version of these scripts; whether Debian has a newer kernel, only prepare asks.
is_prepared() { [ "$(cat "$VCAM_VM_DIR/ready" 2>/dev/null)" = "$(fingerprint)" ]; }
fingerprint() { echo "$(cat "$VCAM_VM_DIR/abi" 2>/dev/null) $(cat "$HERE"/*.sh | cksum)"; }

mkdir -p "$VCAM_VM_DIR"
case ${1-} in
    prepare) shift; source "$HERE/prepare.sh"; prepare "$@" ;;
    run) shift; run "$@" ;;
    *) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
