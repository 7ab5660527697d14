#!/bin/sh
# The first process of the virtual machine: mounts, loads modules, runs the scenario with the folder of the host as /mnt, powers off.
export PATH=/bin:/usr/bin HOME=/
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
mount -t tmpfs none /run
mkdir -p /run/netns
while read -r module; do
    insmod "/lib/modules/$module" || echo "init: $module is not loaded"
done </etc/modules.boot
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /mnt || echo "init: no folder of the host"
ip link set lo up
bash /etc/scenario.sh
echo "scenario ended with $?"
sync
poweroff -f
