# For `source`: a copy of a Debian that is thrown away. Nothing outside it is changed: it is an overlay in memory, in the namespaces of
# whoever makes it, and ends with them.

# copy_of FOLDER: makes a copy of the Debian in that folder, and says in $root where it is.
copy_of() {
    scratch=$(mktemp -d)
    trap 'umount --lazy "$scratch"; rmdir "$scratch"' EXIT
    mount -t tmpfs tmpfs "$scratch"
    mkdir "$scratch"/{upper,work,root}
    root=$scratch/root
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t tmpfs tmpfs "$root/run"
    mount --bind /dev "$root/dev"
}
