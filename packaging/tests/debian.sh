#!/usr/bin/env bash
# Installs, starts, upgrades, removes and purges the Debian packages of a folder, as root, on a copy of a Debian that is thrown away.
#
#   packaging/tests/debian.sh FOLDER [ROOT]
#
# ROOT is the folder of another Debian, such as debootstrap makes; without it the copy is of this machine.
set -euo pipefail

if [[ -z ${INSIDE:-} ]]; then
    INSIDE=1 exec unshare --mount --net --pid --fork --propagation private "$0" "$(realpath "$1")" "$(realpath "${2:-/}")"
fi

packages=$1
# shellcheck source=/dev/null
source "$(dirname "$0")/copy.sh"
copy_of "$2"
ip link set lo up
mkdir "$root/run/packages"
cp "$packages"/*.deb "$root/run/packages/"

cat >"$root/run/inside" <<'INSIDE'
set -euo pipefail
cd /run/packages
# A service manager is not here, so maintainer scripts only prepare what one would do.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
NAMES="antiphase antiphase-topology antiphase-agent antiphase-gate"

fail() { echo "FAILED: $*" >&2 && exit 1; }
is() { [[ $2 == "$3" ]] || fail "$1 is '$2', and should be '$3'"; }
# answers PORT: what /healthz on a port of loopback says, within a minute, for debug programs on a busy machine.
answers() {
    for _ in $(seq 600); do
        if { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null; then
            printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
            timeout 30 head -n 1 <&3 | tr -d '\r'
            exec 3>&-
            return
        fi
        sleep 0.1
    done
    fail "nobody answers on port $1"
}
# In the background only: it takes the place of the shell, so that a signal reaches the program.
as_antiphase() { exec setpriv --reuid antiphase --regid antiphase --clear-groups "$@"; }
# The service and the agent, started by the lines of their units.
starts() {
    local topology agent
    line() { sed -n 's/^ExecStart=//p' "/usr/lib/systemd/system/$1.service"; }
    # What StateDirectory= does.
    install -d -m 0700 -o antiphase -g antiphase /var/lib/antiphase
    as_antiphase $(line antiphase-topology) >/dev/null 2>&1 &
    topology=$!
    as_antiphase $(line antiphase-agent) >/dev/null 2>&1 &
    agent=$!
    is "the service's answer" "$(answers 7480)" "HTTP/1.1 200 OK"
    is "the agent's answer" "$(answers 7481)" "HTTP/1.1 200 OK"
    kill $topology $agent
    wait $topology || fail "the service ended with $?"
    wait $agent || fail "the agent ended with $?"
    [[ -s /var/lib/antiphase/topology.redb ]] || fail "no state file"
}
enabled() { [[ -L /etc/systemd/system/multi-user.target.wants/$1 ]]; }

echo "== install"
dpkg --install ./*.deb >/run/log 2>&1 || { cat /run/log && fail "dpkg"; }
for name in $NAMES; do is "$name" "$(dpkg-query --show --showformat '${db:Status-Status}' $name)" installed; done
version=$(dpkg-query --show --showformat '${source:Upstream-Version}' antiphase)
for program in antiphase antiphase-topology antiphase-agent antiphase-verbs; do
    is "$program --version" "$($program --version)" "$program $version"
done
id antiphase >/dev/null
is "the owner of /run/antiphase" "$(stat --format %U:%G:%a /run/antiphase)" antiphase:antiphase:755
is "the owner of /etc/antiphase/pki" "$(stat --format %U:%G:%a /etc/antiphase/pki)" root:antiphase:750
for unit in antiphase-topology.service antiphase-agent.service run-antiphase.mount; do
    enabled $unit || fail "$unit is not enabled"
done
ldconfig -p | grep -q 'libantiphase_gate.so ' || ldconfig -p | grep -q libantiphase_gate.so || fail "the loader does not find the gate"
for program in antiphase antiphase-topology antiphase-agent antiphase-verbs; do
    zcat /usr/share/man/man1/$program.1.gz | grep -q 'EXIT STATUS' || fail "no manual page of $program"
    bash -n /usr/share/bash-completion/completions/$program
    grep -q "^#compdef $program" /usr/share/zsh/vendor-completions/_$program || fail "no completion of $program for zsh"
    [[ -s /usr/share/fish/vendor_completions.d/$program.fish ]] || fail "no completion of $program for fish"
done
sed -n 's|^Documentation=file://||p' /usr/lib/systemd/system/*antiphase* | while read -r file; do [[ -f $file ]] || fail "no $file"; done
# Every link of the installed pages leads to something installed.
documents=/usr/share/doc/antiphase
[[ -f $documents/docs/operator.md && -f $documents/examples/two-hosts/README.md ]] || fail "no documentation"
links() { { grep -oE '\]\([^)# ]+' "$1" || true; } | cut -c3- | { grep -v : || true; }; }
dead=$(find $documents -name '*.md' | while read -r page; do
    links "$page" | while read -r path; do [[ -e $(dirname "$page")/$path ]] || echo "$page: $path"; done
done)
[[ -z $dead ]] || fail "pages link to what is not installed: $dead"
antiphase-topology config check --config /etc/antiphase/antiphase-topology.toml >/dev/null
antiphase-agent config check >/dev/null
antiphase fabric show /usr/share/doc/antiphase/examples/testbed/fabric.yaml >/dev/null
starts

echo "== upgrade"
echo '# ours' >>/etc/antiphase/antiphase-agent.toml
systemctl disable antiphase-topology.service 2>/dev/null
mkdir /run/next
for name in $NAMES; do
    dpkg-deb --raw-extract ${name}_*.deb /run/next/$name
    sed -i 's/^Version: .*/&.next/' /run/next/$name/DEBIAN/control
    dpkg-deb --root-owner-group -Zgzip -z1 --build /run/next/$name /run/next >/dev/null
done
dpkg --install /run/next/*.deb >/run/log 2>&1 || { cat /run/log && fail "dpkg"; }
is "the version" "$(dpkg-query --show --showformat '${Version}' antiphase-agent | grep -o 'next$')" next
is "the last line of the configuration" "$(tail -n 1 /etc/antiphase/antiphase-agent.toml)" '# ours'
enabled antiphase-agent.service || fail "the upgrade disabled the agent"
! enabled antiphase-topology.service || fail "the upgrade enabled a service that somebody disabled"
starts

echo "== remove"
touch /etc/antiphase/pki/ca.pem
dpkg --remove $NAMES >/run/log 2>&1 || { cat /run/log && fail "dpkg"; }
is "what is left in /usr/bin" "$(find /usr/bin -name 'antiphase*')" ""
[[ -f /etc/antiphase/antiphase-agent.toml && -s /var/lib/antiphase/topology.redb ]] || fail "remove took configuration or state away"

echo "== purge"
dpkg --purge antiphase-topology antiphase-agent >/run/log 2>&1 || { cat /run/log && fail "dpkg"; }
! grep -i warning /run/log | grep -v 'etc/antiphase' || fail "dpkg warns"
left=$(find /etc /usr/bin /usr/lib /usr/include /usr/share /var/lib/antiphase /var/lib/systemd -xdev -name '*antiphase*' 2>/dev/null || true)
is "what is left" "$left" /etc/antiphase
is "what is left of it" "$(find /etc/antiphase -type f)" /etc/antiphase/pki/ca.pem
echo "== done"
INSIDE
chroot "$root" bash /run/inside
