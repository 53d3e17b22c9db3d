#!/bin/sh
# A machine under systemd, in namespaces of its own (see test_systemd.py): this one's file system below an overlay that is
# forgotten, without its services. FOLDER/files is put into it, PACKAGES are Python's there at /opt/packages.
# What it may not change of the kernel's is read-only, and nothing but its own loopback is on its network.
set -e
folder=$1 packages=$2
root=$folder/root scratch=$folder/scratch
mkdir "$root" "$scratch"
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work"
mount -t overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$root"
rm -rf "$root"/etc/systemd/system/* "$root/etc/fstab" "$root/etc/epochcast"
for unit in getty.target systemd-modules-load.service systemd-sysctl.service systemd-networkd.service; do
	ln -s /dev/null "$root/etc/systemd/system/$unit"
done
mount -t tmpfs -o mode=755 tmpfs "$root/opt"
mkdir "$root/opt/packages" "$root/outside"
cp -r "$folder"/files/. "$root"
mount --bind "$packages" "$root/opt/packages"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for place in run dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$place"; done
mount -t tmpfs tmpfs "$root/tmp"
for device in null zero full random urandom tty; do
	touch "$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
# NVIDIA's major number and another one, without a driver behind: what may be opened has none, the rest is forbidden.
mknod "$root/dev/nvidia0" c 195 0
mknod "$root/dev/other" c 240 0
ip link set lo up
# A public and a private address, both of this machine alone.
ip address add 203.0.113.1/32 dev lo
ip address add 10.9.8.7/32 dev lo
cd "$root"
pivot_root . outside
umount -l /outside
# As systemd finds it at a boot; in a container it leaves that to the container's maker, and credentials would not reach a service.
mount --make-rshared /
exec env -i container=epochcast PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target </dev/null
