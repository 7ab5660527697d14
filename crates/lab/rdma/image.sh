#!/usr/bin/env bash
# Makes FOLDER/vmlinuz and FOLDER/initrd.zst: Debian's kernel with Soft-RoCE, and a root of busybox and the tools of this machine.
#
#     crates/lab/rdma/image.sh FOLDER
#
# The kernel is a package that is unpacked in FOLDER and not installed. What FOLDER has already is not fetched again.
set -euo pipefail
# Exit code where there is no kernel to be had.
unfetched=3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"

if [[ ! -e vmlinuz ]]; then
    package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1)
    if [[ -z $package ]]; then
        echo "image: apt-cache knows no linux-image-amd64; run: apt-get update" >&2
        exit "$unfetched"
    fi
    mkdir -p package
    (cd package && rm -f ./*.deb && apt-get -q download "$package") || exit "$unfetched"
    rm -rf kernel
    dpkg -x package/*.deb kernel
    cp kernel/boot/vmlinuz-* vmlinuz
fi
version=$(ls kernel/lib/modules)
if [[ ! -e kernel/lib/modules/$version/modules.dep ]]; then
    depmod -b kernel "$version"
fi

rm -rf root
mkdir -p root/{bin,dev,etc/libibverbs.d,lib/modules,mnt,proc,run,sys,tmp,usr/bin}
cp "$(command -v busybox)" root/bin/busybox
for applet in $(busybox --list); do
    [[ $applet == busybox ]] || ln -sf busybox "root/bin/$applet"
done

# A file and the libraries that it needs, where the loader finds them here.
with_libraries() {
    ldd "$1" 2>/dev/null | awk '/=> \// { print $3 } /^\t\/lib/ { print $1 }' | while read -r library; do
        mkdir -p "root$(dirname "$library")"
        cp -L "$library" "root$library"
    done
}
for program in bash ip tc rdma ethtool unshare nsenter; do
    path=$(readlink -f "$(command -v "$program")")
    # An applet of busybox may have the name.
    rm -f "root/bin/$program"
    cp "$path" "root/bin/$program"
    with_libraries "$path"
done
# What is loaded by name when a program runs is nobody's dependency: the verbs library, the driver of Soft-RoCE, and what threads need.
libraries=/usr/lib/$(uname -m)-linux-gnu
mkdir -p "root$libraries/libibverbs"
for library in "$libraries/libibverbs.so.1" "$libraries/libgcc_s.so.1" "$libraries"/libibverbs/librxe-*.so; do
    # On Debian the loader's folder and this one are the same.
    cp -L "$library" "root$library"
    with_libraries "$library"
done
cp /etc/libibverbs.d/rxe.driver root/etc/libibverbs.d/
if [[ ! -e root/lib64 ]]; then ln -s lib root/lib64; fi

# Modules in the order in which they load. Those of RDMA are loaded by the scenario, which looks before and after.
modules() {
    local list=$1 module file
    shift
    : >"root/etc/$list"
    for module in "$@"; do
        modprobe -d kernel -S "$version" --show-depends "$module" | awk '$1 == "insmod" { print $2 }' | while read -r file; do
            if [[ ! -e root/lib/modules/$(basename "$file") ]]; then
                cp "$file" root/lib/modules/
                basename "$file" >>"root/etc/$list"
            fi
        done
    done
}
modules modules.boot veth bridge sch_red sch_htb sch_tbf virtio_pci 9pnet_virtio 9p
modules modules.verbs ib_uverbs
# rdma_rxe needs crc32 and does not say so.
modules modules.rxe crc32_generic rdma_rxe

install -m 755 "$here/init.sh" root/init
cp "$here/hosts.sh" "$here/scenario.sh" root/etc/
printf 'root:x:0:0::/:/bin/sh\n' >root/etc/passwd
printf '127.0.0.1 localhost\n' >root/etc/hosts
(cd root && find . | cpio -o -H newc --quiet | zstd -q -3) >initrd.zst
