#!/usr/bin/env bash
# Builds the packages into out/packages: the wheel for jobs, Debian packages, images, and the chart for Kubernetes.
#
#   scripts/packages.sh [--from FOLDER] [--into FOLDER] [--revision N] [--fast] [wheel|deb|image|chart]...
#
# --from takes programs and libraries that cargo built already, and builds nothing; --fast compresses little. Tests use both.
# Without --from the libraries for jobs are linked for an old glibc, which `scripts/setup.sh packages` has the linker for.
set -euo pipefail
cd "$(dirname "$0")/.."

# The oldest glibc that jobs may have: Rust's own oldest. Hosts of jobs are often older than the one that builds.
export PACKAGES_GLIBC=2.17

from='' into=out/packages revision=1 fast=() kinds=()
while (($#)); do
    case $1 in
    --from) from=$2 && shift 2 ;;
    --into) into=$2 && shift 2 ;;
    --revision) revision=$2 && shift 2 ;;
    --fast) fast=(--fast) && shift ;;
    wheel | deb | image | chart) kinds+=("$1") && shift ;;
    *) echo "packages: $1 is no option and no kind of package (wheel, deb, image, chart)" >&2 && exit 2 ;;
    esac
done
if ((${#kinds[@]} == 0)); then kinds=(wheel deb image chart); fi

wants() { [[ " ${kinds[*]} " == *" $1 "* ]]; }

target=${CARGO_TARGET_DIR:-$PWD/target}
if [[ -n $from ]]; then
    programs=$from libraries=$from
else
    scripts/setup.sh packages
    if wants deb || wants image; then
        cargo build --locked --release -p antiphase -p antiphase-topology -p antiphase-agent -p antiphase-verbs --bins
    fi
    # Another linker, so another target: what build scripts run is not linked by it.
    machine=$(uname -m)-unknown-linux-gnu
    name=${machine//-/_}
    export PACKAGES_ZIG=$target/packaging/bin/python
    export "CARGO_TARGET_${name^^}_LINKER=$PWD/packaging/zig-linker.sh"
    cargo build --locked --release --target "$machine" -p antiphase-gate -p antiphase-nccl -p antiphase-nccl-calls --lib
    programs=$target/release libraries=$target/$machine/release
fi

mkdir -p "$into"
notices=$into/third-party.txt
if wants wheel || wants deb || wants image; then python3 packaging/notices.py "$notices"; fi
if wants wheel; then python3 agent/gate/python/backend.py "$libraries" "$into" --notices "$notices"; fi
if wants deb; then
    python3 packaging/deb.py "$programs" "$libraries" "$into" --notices "$notices" --revision "$revision" "${fast[@]}"
fi
if wants image; then python3 packaging/image.py "$programs" "$into" --notices "$notices" "${fast[@]}"; fi
if wants chart; then python3 packaging/chart.py "$into"; fi
