# The guest's second program: devices, then the command. Run by bash with the path of its settings.
export PATH=/usr/local/bin:/usr/bin:/bin
source "$1"
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
NINE=trans=virtio,version=9p2000.L,msize=512000,cache=none
mount -t tmpfs tmpfs /run
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
ln -sfn /proc/self/fd /dev/fd
ln -sfn /proc/self/fd/0 /dev/stdin
ln -sfn /proc/self/fd/1 /dev/stdout
ln -sfn /proc/self/fd/2 /dev/stderr
mount -t 9p -o "$NINE" share "$SHARE"
number=0
for folder in "${OUTS[@]}"; do
    number=$((number + 1))
    mount -t 9p -o "$NINE" "out$number" "$folder"
done
mkdir -p "/usr/lib/modules/$ABI"
mount --bind "$MODULES/$ABI" "/usr/lib/modules/$ABI"
busybox ip link set lo up
ulimit -n 4096

modprobe videodev
if [ "$LOOPBACK" != - ]; then eval "insmod $LOOPBACK_MODULE $LOOPBACK" || echo "vcam_vm: no v4l2loopback" >&2; fi
if [ "$VIVID" != - ]; then eval "modprobe vivid $VIVID" || echo "vcam_vm: no vivid" >&2; fi
chmod 666 /dev/video* 2>/dev/null

stty -F /dev/hvc0 raw -echo
cd "$FOLDER" || exit
date +%s.%N >"$SHARE/started"
# Output goes through a pipe, for the command is to see no terminal.
mkfifo /run/out
cat /run/out >/dev/hvc0 &
cat=$!
("${COMMAND[@]}") </dev/null >/run/out 2>&1
echo $? >"$SHARE/rc.new"
sync
mv "$SHARE/rc.new" "$SHARE/rc"
# What the command left behind must not hold the pipe, and with it the machine, open.
for process in /proc/[0-9]*; do
    process=${process#/proc/}
    [ "$process" = 1 ] || [ "$process" = "$cat" ] || kill -9 "$process"
done 2>/dev/null
wait "$cat"
dmesg >"$SHARE/dmesg"
busybox poweroff -f
