#!/usr/bin/env bash
# Installs and uses the packages that `make packages` built (out/packages): on a fresh Debian for those of Debian, in a fresh
# environment of Python for the wheel, in a folder for the images, with Helm's engine for the chart.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=$PWD/out/packages
target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$target/packaging/bin
if ! compgen -G "$packages/*.whl" >/dev/null; then
    echo "test-packages: there is no wheel in out/packages; run: make packages" >&2
    exit 1
fi

echo "== wheel"
"$tools/auditwheel" show "$packages"/*.whl | tee "$target/packaging/auditwheel.txt"
# The tag of the name has to be what auditwheel finds itself.
tag=$(basename "$packages"/*.whl .whl)
grep -q "\"${tag##*-}\"" "$target/packaging/auditwheel.txt" || { echo "test-packages: auditwheel does not agree with $tag" >&2 && exit 1; }

echo "== chart"
"$tools/python" packaging/tests/chart.py "$packages"/antiphase-*.tgz "$target/release"

echo "== on this machine"
ANTIPHASE_PACKAGES=$packages cargo test --package antiphase-tests --test packages -- --nocapture

if [[ $(id -u) != 0 ]] || ! command -v debootstrap >/dev/null; then
    echo "skipped: a fresh Debian needs root and debootstrap"
    exit
fi
echo "== on a fresh Debian"
# shellcheck source=/dev/null
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
root=$target/packaging/debian-$suite
if [[ ! -d $root ]]; then
    rm -rf "$root.part"
    # The mirror of this machine: Debian's, as lists of others may stand before it.
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' "Codename: $suite" 'Component: main' | head -n 1)
    if [[ -z $mirror ]]; then echo "test-packages: apt has no list of Debian $suite; run: apt-get update" >&2 && exit 1; fi
    debootstrap --variant=minbase --include=systemd "$suite" "$root.part" "$mirror" >"$target/packaging/debootstrap.log"
    mv "$root.part" "$root"
fi
packaging/tests/debian.sh "$packages" "$root"
echo "== as a new user, timed"
packaging/tests/new-user.sh "$packages" "$root"
if command -v lintian >/dev/null; then
    # Known: Debian's own archive is no aim, antiphase-verbs has no page, and no program links the libraries by a version.
    lintian --fail-on error --suppress-tags "$(tr '\n' ',' <packaging/deb/lintian-known)" "$packages"/*.deb
fi
