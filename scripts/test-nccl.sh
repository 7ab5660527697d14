#!/usr/bin/env bash
# Tries the libraries for NCCL with real releases of it, as far as they go without a GPU: NCCL is loaded, names itself, refuses each call
# with and without our library before it, and opens and closes the plugin.
#
#     scripts/test-nccl.sh [VERSION...]
#
# The releases come from Python's package index, some 200 to 400 MB each, one at a time: each is deleted after its tests. With
# ANTIPHASE_NCCL=FILE the test takes that libnccl.so.2 and nothing is fetched. No part of `make test`, for what it fetches.
set -euo pipefail
cd "$(dirname "$0")/.."

# The newest of each way to look for plugins: none (2.19, 2.21), profilers 1, 1 to 3 and 1 to 5, and the newest of all that was tried.
releases=("${@:-}")
if [[ -z ${releases[0]} ]]; then releases=(2.19.3 2.21.5 2.23.4 2.26.2 2.28.9 2.32.3); fi

# The plugin lies beside the tests then, and the other library is built with them.
cargo build --quiet -p antiphase-nccl

try() {
    ANTIPHASE_NCCL=$1 cargo test --quiet -p antiphase-nccl-calls --test real -- --nocapture --test-threads 1
}

if [[ -n ${ANTIPHASE_NCCL:-} ]]; then
    try "$(realpath "$ANTIPHASE_NCCL")"
    exit
fi
[[ $(uname -m) == x86_64 || $(uname -m) == aarch64 ]] || { echo "skipped: NCCL is built for x86_64 and aarch64, not $(uname -m)" && exit 0; }

target=${CARGO_TARGET_DIR:-$PWD/target}/nccl
python=$target/python/bin/python
if ! [[ -x $python ]]; then
    python3 -m venv "$target/python" || { echo "test-nccl: python3-venv is needed to fetch NCCL" >&2 && exit 1; }
fi
for release in "${releases[@]}"; do
    folder=$target/$release
    rm -rf "$folder"
    mkdir -p "$folder"
    echo "== NCCL $release"
    "$python" -m pip --disable-pip-version-check download --quiet --no-deps --no-cache-dir --dest "$folder" "nvidia-nccl-cu12==$release"
    "$python" -m zipfile -e "$folder"/*.whl "$folder"
    try "$folder/nvidia/nccl/lib/libnccl.so.2"
    rm -rf "$folder"
done
