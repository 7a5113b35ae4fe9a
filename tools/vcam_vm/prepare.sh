# Sourced by vcam_vm.sh: packages, the module in every version, the initramfs.

NEEDED="qemu-system-x86 busybox-static kmod cpio gzip gcc make v4l-utils"
BOOT_MODULES="virtio_pci virtio_console 9pnet_virtio 9p overlay"
# Where a newer v4l2loopback comes from than this Debian has: only the package's source is taken from there.
NEWER_SUITE=trixie

prepare() {
    local began abi
    began=$(date +%s.%N)
    [ "$(uname -m)" = x86_64 ] || cannot "this machine is $(uname -m), and the guest is an x86_64 one"
    command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || cannot "this is no Debian: there is no apt-get"
    export DEBIAN_FRONTEND=noninteractive
    refresh
    # "amd64" and not "cloud-amd64", which has no media drivers.
    abi=$(apt-cache depends linux-image-amd64 2>/dev/null |
        sed -n 's/.*Depends: linux-image-\([0-9].*\)$/\1/p' | grep -v unsigned | head -1 || true)
    [ -n "$abi" ] || cannot "apt knows no linux-image-amd64" "Is this Debian, and are its package lists there?"
    need $NEEDED "linux-headers-$abi" "$@"
    say "packages are there after $(seconds_since "$began") s; kernel $abi"
    if is_prepared && [ "$(cat "$VCAM_VM_DIR/abi")" = "$abi" ]; then
        say "everything is built: $VCAM_VM_DIR"
        return
    fi
    rm -rf "$VCAM_VM_DIR"/{debs,root,src,initrd,loopback,ready}
    mkdir -p "$VCAM_VM_DIR"/{debs,root,src,initrd}
    fetch "$abi"
    build_loopback "$abi"
    depmod -b "$VCAM_VM_DIR/root" "$abi"
    cp "$VCAM_VM_DIR/root/boot/vmlinuz-$abi" "$VCAM_VM_DIR/vmlinuz"
    build_initramfs "$abi"
    rm -rf "$VCAM_VM_DIR"/{debs,src,apt} "$VCAM_VM_DIR"/root/{boot,usr}
    echo "$abi" >"$VCAM_VM_DIR/abi"
    fingerprint >"$VCAM_VM_DIR/ready"
    say "prepared in $(seconds_since "$began") s: $VCAM_VM_DIR"
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

refresh() {
    # Lists of the last day are new enough, and a machine without a network may have all it needs.
    [ -z "$(find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -mtime -1 -print -quit 2>/dev/null)" ] || return 0
    as_root apt-get update -qq >"$VCAM_VM_DIR/apt.log" 2>&1 || say "apt-get update failed; going on with the old lists"
}

need() {
    local package missing=()
    for package in "$@"; do is_installed "$package" || missing+=("$package"); done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    local try
    for try in old fresh; do
        as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$VCAM_VM_DIR/apt.log" 2>&1 && return
        # The lists may name versions that are gone by now.
        [ "$try" = fresh ] || as_root apt-get update -qq >/dev/null 2>&1 || true
    done
    tail -5 "$VCAM_VM_DIR/apt.log" >&2 || true
    cannot "these packages are missing: ${missing[*]}" "sudo apt-get install ${missing[*]}"
}

# The kernel's image is unpacked and not installed: this machine's own boot is none of our business.
fetch() {
    (cd "$VCAM_VM_DIR/debs" && apt-get download -qq "linux-image-$1" v4l2loopback-dkms >"$VCAM_VM_DIR/apt.log" 2>&1) ||
        { tail -5 "$VCAM_VM_DIR/apt.log" >&2; cannot "linux-image-$1 or v4l2loopback-dkms cannot be downloaded"; }
    dpkg -x "$VCAM_VM_DIR"/debs/linux-image-*.deb "$VCAM_VM_DIR/root"
    dpkg -x "$VCAM_VM_DIR"/debs/v4l2loopback-dkms_*.deb "$VCAM_VM_DIR/src"
    fetch_newer || say "NO NEWER v4l2loopback: $NEWER_SUITE cannot be reached; only this Debian's is built"
}

fetch_newer() {
    local apt="$VCAM_VM_DIR/apt" options
    mkdir -p "$apt"/{lists/partial,cache/archives/partial,deb}
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $NEWER_SUITE main" \
        >"$apt/sources.list"
    options=(-qq -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$apt/lists"
             -o "Dir::Cache=$apt/cache" -o Acquire::Languages=none -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update >"$VCAM_VM_DIR/apt.log" 2>&1 &&
        (cd "$apt/deb" && rm -f ./*.deb && apt-get "${options[@]}" download v4l2loopback-dkms) >>"$VCAM_VM_DIR/apt.log" 2>&1 &&
        dpkg -x "$apt"/deb/v4l2loopback-dkms_*.deb "$VCAM_VM_DIR/src"
}

# Every unpacked source becomes loopback/VERSION/v4l2loopback.ko.
build_loopback() {
    local source version
    for source in "$VCAM_VM_DIR"/src/usr/src/v4l2loopback-*; do
        version=${source##*-}
        # 0.12 has no rule for "modules" alone, newer ones none for the file.
        make -s -C "/usr/src/linux-headers-$1" M="$source" v4l2loopback.ko >"$VCAM_VM_DIR/build.log" 2>&1 ||
            make -s -C "/usr/src/linux-headers-$1" M="$source" modules >"$VCAM_VM_DIR/build.log" 2>&1 ||
            { tail -20 "$VCAM_VM_DIR/build.log" >&2; say "v4l2loopback $version does not build"; return 1; }
        mkdir -p "$VCAM_VM_DIR/loopback/$version"
        strip --strip-debug -o "$VCAM_VM_DIR/loopback/$version/v4l2loopback.ko" "$source/v4l2loopback.ko"
        say "built v4l2loopback $version"
    done
}

build_initramfs() {
    local folder=$VCAM_VM_DIR/initrd module
    mkdir -p "$folder"/{bin,proc,sys,dev,mod,host,rw,root}
    cp "$(command -v busybox)" "$folder/bin/busybox"
    ln -sf busybox "$folder/bin/sh"
    install -m 755 "$HERE/init.sh" "$folder/init"
    for module in $BOOT_MODULES; do
        modprobe -d "$VCAM_VM_DIR/root" -S "$1" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
    done | awk '!seen[$0]++' | while read -r module; do
        cp "$module" "$folder/mod/"
        basename "$module" >>"$folder/mod/order"
    done
    (cd "$folder" && find . | cpio -o -H newc --quiet | gzip -1) >"$VCAM_VM_DIR/initrd.gz"
}
