#!/bin/sh
# The guest's first program: this machine's / read-only through 9p, memory over it for what is written.
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
$B mount -t devtmpfs dev /dev
for word in $($B cat /proc/cmdline); do
    case $word in vcam_vm.run=*) RUN=${word#vcam_vm.run=} ;; esac
done
die() { echo "vcam_vm: $*" >/dev/console; $B poweroff -f; }
while read -r module; do $B insmod "/mod/$module" || die "insmod $module failed"; done </mod/order
$B mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,ro,cache=loose root /host || die "no root over 9p"
$B mount -t tmpfs -o size=75% tmpfs /rw
$B mkdir /rw/up /rw/work
$B mount -t overlay -o lowerdir=/host,upperdir=/rw/up,workdir=/rw/work overlay /root || die "no overlay"
for folder in proc sys dev; do $B mount --move /$folder /root/$folder; done
exec $B switch_root -c /dev/console /root /bin/bash "$RUN/guest.sh" "$RUN/settings"
