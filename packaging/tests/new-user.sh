#!/usr/bin/env bash
# A new user on a fresh Debian, timed: from the packages of a folder to two PyTorch jobs that are held, and the page, by the blocks of
# README.md and of the installed example alone. As root, on a copy of a Debian that is thrown away.
#
#   packaging/tests/new-user.sh FOLDER ROOT
#
# ROOT is the folder of a Debian, such as debootstrap makes. Debian's packages come from the mirrors of this machine.
set -euo pipefail

if [[ -z ${INSIDE:-} ]]; then
    INSIDE=1 exec unshare --mount --pid --fork --propagation private "$0" "$(realpath "$1")" "$(realpath "$2")"
fi

packages=$1
# shellcheck source=/dev/null
source "$(dirname "$0")/copy.sh"
copy_of "$2"
# How this machine asks its mirrors.
mount --bind /etc/apt "$root/etc/apt"
mount -o remount,bind,ro "$root/etc/apt"
[[ ! -e /etc/resolv.conf ]] || cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
mkdir "$root/run/new-user"
cp "$packages"/*.deb "$packages"/*.whl "$(dirname "$0")/../../README.md" "$root/run/new-user/"

cat >"$root/run/inside" <<'INSIDE'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd /run/new-user
began=$SECONDS
step() { printf '%5d s  %s\n' $((SECONDS - began)) "$*"; }
fail() { echo "FAILED: $*" >&2 && exit 1; }

# The line that installs is the README's.
install=$(grep -m 1 '^apt-get install .*antiphase' README.md) || fail "README has no line that installs"
apt-get update >/run/log 2>&1 || { cat /run/log && fail "apt-get update"; }
step "apt-get update"
bash -ec "${install/apt-get install/apt-get install --yes}" >/run/log 2>&1 || { tail /run/log && fail "$install"; }
step "$install"
useradd --create-home somebody
cp antiphase_gate-*.whl ~somebody
# Nobody but the programs of this trial has its ports.
unshare --net bash -ec '
    ip link set lo up 2>/dev/null || python3 - <<END
import fcntl, socket, struct
with socket.socket() as s:  # SIOCSIFFLAGS: up
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 1))
END
    exec setpriv --reuid somebody --regid somebody --clear-groups env HOME=/home/somebody bash /run/user "$1"
' - $((SECONDS - began))
INSIDE

cat >"$root/run/user" <<'USER'
set -euo pipefail
before=$1
step() { printf '%5d s  %s\n' $((before + SECONDS)) "$*"; }
fail() { echo "FAILED: $*" >&2 && { tail -n 5 ~/log* || true; } >&2; kill $(jobs -p) || true; exit 1; }
# block PAGE NUMBER: that block of shell of a page.
block() { awk -v wanted="$2" '/^```sh$/ { n++; inside = n == wanted; next } /^```$/ { inside = 0 } inside' "$1"; }
# does BLOCK: its lines, as somebody types them.
does() { while IFS= read -r line; do eval "$line"; done <<<"$1"; }

cd ~
# The example's page says these lines in a sentence.
page=/usr/share/doc/antiphase/examples/two-hosts/README.md
for line in 'python3 -m venv --system-site-packages v' 'v/bin/pip install antiphase_gate-*.whl' '. v/bin/activate' \
    'cp -r /usr/share/doc/antiphase/examples/two-hosts .'; do
    grep -qF "$line" $page || fail "the page does not say: $line"
    eval "$line" >log 2>&1 || fail "$line"
done
step "the wheel in an environment"
cd two-hosts
exec 3>&1 >~/log.programs 2>&1
does "$(block $page 1)"
for _ in $(seq 100); do ! antiphase jobs >/dev/null 2>&1 || break && sleep 0.1; done
step "a service and two agents" >&3
does "$(block $page 2)"
step "two jobs committed and started" >&3
held() { antiphase jobs -o json | python3 -c 'import json, sys; print(sum(job["state"] == "held" for job in json.load(sys.stdin)["jobs"]))'; }
for _ in $(seq 240); do
    [[ $(held) != 2 ]] || break
    sleep 0.5
done
[[ $(held) == 2 ]] || { antiphase jobs && fail "two jobs are not held after two minutes"; } >&3 2>&3
step "two jobs are held" >&3
antiphase jobs >&3
python3 -c 'import urllib.request as u; assert b"Antiphase" in u.urlopen("http://127.0.0.1:7480/").read()' || fail "no page" 2>&3
step "the page is there" >&3
kill $(jobs -p)
USER

chroot "$root" bash /run/inside
