#!/usr/bin/env bash
# Checks that what the build and the tests need is here, and installs what is missing.
# Nothing is fetched when nothing is missing. Called by `make demo` and `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()

# need PACKAGES WHY PROBE...: Debian packages, what they are for, and a command that succeeds when they are here.
need() {
    local packages=$1 why=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then
        echo "setup: missing $packages ($why)"
        read -ra names <<<"$packages"
        missing+=("${names[@]}")
    fi
}

# A compiler without the C library's start files is there, but cannot link.
links() {
    local out status=0
    out=$(mktemp)
    echo 'int main(void) { return 0; }' | cc -x c -o "$out" - || status=1
    rm -f "$out"
    return $status
}

need "gcc libc6-dev" "Rust links programs with cc, and the gate's C tests are compiled with it" links
need "git" "the house tests ask git which files are ours" git --version

# What only the lab and some tests use: root gets it; an ordinary user can do without, and is told what is then skipped.
optional=()

# want PACKAGES WHY PROBE...: as need, for what is not needed to build.
want() {
    local packages=$1 why=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then
        read -ra names <<<"$packages"
        if [[ $(id -u) == 0 ]]; then
            echo "setup: missing $packages ($why)"
            missing+=("${names[@]}")
        else
            echo "setup: without $packages, skipped: $why"
            optional+=("${names[@]}")
        fi
    fi
}

# The lab needs root, so the rest of its tools are of no use without.
if [[ $(id -u) == 0 ]]; then
    want "iproute2" "the lab's namespaces, links and queues" ip -V
    want "clang" "the lab's ECN queue is a program for the kernel" clang --version
    want "bpftool" "the lab reads the counters of its ECN queue" bpftool version
    want "ethtool" "the lab sends packets one by one, as a NIC does on the wire" ethtool --version
fi
if [[ ${1:-} == test ]]; then
    want "prometheus" "Prometheus and promtool try the metrics, rules, alerts and dashboards" promtool --version
    want "prometheus-node-exporter" "whether the agent's metrics have the names and values of node_exporter's" prometheus-node-exporter --version
    want "chromium" "the tests of the web page" chromium --version
    want "curl" "the blocks of the documents" curl --version
    want "python3" "the tests of the Python packages: the gate's and the client" python3 --version
    want "python3-venv" "the wheel in a fresh environment of Python" python3 -c "import ensurepip, venv"
    want "python3-torch" "the gate in a real PyTorch job" /usr/bin/python3 -c "import torch"
    want "g++" "the gate's header in C++" g++ --version
    want "slurmctld slurmd slurm-client munge" "the integration with Slurm, in a cluster of its own" eval "command -v slurmctld && command -v slurmd && command -v sbatch && command -v munged"
    want "lua5.1" "the comments that job_submit.lua of Slurm takes, beside those that its prolog takes" lua5.1 -v
    want "libibverbs-dev" "the layouts of the verbs library against its C header" test -e /usr/include/infiniband/verbs.h
fi
if [[ ${1:-} == rdma ]]; then
    want "qemu-system-x86" "the virtual machine with Soft-RoCE" qemu-system-x86_64 --version
    want "busybox-static cpio zstd kmod" "the virtual machine's root" eval "busybox true && cpio --version && zstd --version && depmod --version"
    want "iproute2 ethtool" "the virtual machine's hosts and switch" eval "rdma -V && ethtool --version"
    want "ibverbs-providers" "Soft-RoCE's part of the verbs library" test -e /etc/libibverbs.d/rxe.driver
fi
if [[ ${1:-} == kubernetes && -z ${KUBEBUILDER_ASSETS:-} ]]; then
    need "golang-go golang-github-modern-go-reflect2-dev" "kube-apiserver is built of Debian's sources" eval "go version && test -e /usr/share/gocode/src/github.com/modern-go/reflect2"
    need "openssl" "a key for kube-apiserver" openssl version
fi
if [[ ${1:-} == nccl ]]; then
    need "python3 python3-venv" "releases of NCCL are fetched by pip" python3 -c "import ensurepip, venv"
    need "binutils" "the names that the plugin has are read by readelf" readelf --version
fi
if [[ ${1:-} == packages || ${1:-} == test-packages ]]; then
    need "python3 python3-venv" "the packages are put together by Python" python3 -c "import ensurepip, venv"
    need "binutils" "programs are stripped, and asked which glibc they need" objdump --version
fi
if [[ ${1:-} == test-packages ]]; then
    want "debootstrap" "the packages on a fresh Debian" debootstrap --version
    want "lintian" "what Debian asks of packages" lintian --version
fi
if ((${#optional[@]})); then
    echo "setup: to have them: sudo apt-get install -y --no-install-recommends ${optional[*]}"
fi

if ((${#missing[@]})); then
    if ! command -v apt-get >/dev/null; then
        echo "setup: there is no apt-get here; install your system's packages for: ${missing[*]}" >&2
        exit 1
    elif [[ $(id -u) != 0 ]]; then
        echo "setup: run this, then try again:" >&2
        echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    # A failed update is not yet a failure: the lists may be there already.
    apt-get update -qq || echo "setup: apt-get update failed, trying with the package lists that are here"
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
fi

# Rust comes from rustup: the one in Debian 12 is older than what we need.
wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null; then
    echo "setup: cargo is not on PATH; install Rust $wanted or newer with rustup: https://rustup.rs" >&2
    exit 1
fi
have=$(cargo --version | cut -d ' ' -f 2)
if [[ $(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1) != "$wanted" ]]; then
    echo "setup: cargo is $have, and Antiphase needs $wanted or newer; run: rustup update stable" >&2
    exit 1
fi

# Tools of the registry for Python, of fixed versions, in an environment of their own: a linker that knows every glibc, and for the
# tests what judges wheels, charts and documents of Kubernetes.
tools=()
if [[ ${1:-} == nccl ]]; then
    need "python3 python3-venv" "releases of NCCL are fetched by pip" python3 -c "import ensurepip, venv"
    need "binutils" "the names that the plugin has are read by readelf" readelf --version
fi
if [[ ${1:-} == packages || ${1:-} == test-packages ]]; then tools+=(ziglang==0.17.1); fi
if [[ ${1:-} == test-packages ]]; then tools+=(auditwheel==6.8.2 helm-python-sdk==0.2.2 kubernetes-validate==1.37.0); fi
if ((${#tools[@]})); then
    environment=${CARGO_TARGET_DIR:-$PWD/target}/packaging
    if [[ ! -x $environment/bin/python ]]; then python3 -m venv "$environment"; fi
    "$environment/bin/pip" install --quiet --disable-pip-version-check "${tools[@]}"
fi

# wheel FOLDER REQUIREMENT: fetches a wheel of the registry for Python into a folder, with nothing that it depends on. pip compares its
# checksum, which the requirement has.
wheel() {
    local folder=$1
    echo "$2" >"$folder/wanted.txt"
    python3 -m venv "$folder/venv" &&
        "$folder/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --require-hashes -r "$folder/wanted.txt" -d "$folder"
}

# axe-core, which finds what on the web page some people cannot read or reach, is no part of the repository: a wheel of the registry for
# Python carries it. A test without it says that it was skipped.
if [[ ${1:-} == test ]]; then
    axe=${CARGO_TARGET_DIR:-$PWD/target}/axe/axe.min.js
    script=84494fec757e4710dc751c8d7a636e457f4532f08f85c86dc9070133fbff53bc
    fetch_axe() {
        local folder status=0
        folder=$(mktemp -d)
        wheel "$folder" "axe-playwright-python==0.1.8 --hash=sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8" &&
            python3 -m zipfile -e "$folder"/*.whl "$folder" &&
            echo "$script  $folder/axe_playwright_python/axe.min.js" | sha256sum --check --quiet &&
            mkdir -p "${axe%/*}" && mv "$folder/axe_playwright_python/axe.min.js" "$axe" || status=1
        rm -rf "$folder"
        return $status
    }
    if ! echo "$script  $axe" | sha256sum --check --status 2>/dev/null; then
        echo "setup: missing axe-core (the accessibility of the web page)"
        if ! fetch_axe; then echo "setup: axe-core did not come; skipped: the accessibility of the web page" >&2; fi
    fi
fi

# HiGHS, a solver of others that ours is held against: the program and its libraries, in a wheel for any Python on x86_64.
if [[ ${1:-} == test ]]; then
    highs=${CARGO_TARGET_DIR:-$PWD/target}/highs/1.15.1
    fetch_highs() {
        local folder status=0
        folder=$(mktemp -d)
        wheel "$folder" "highsbox==1.15.1 --hash=sha256:17f30d23ef37488467732b45f141146f7c287826a576b4514ae39a8cc4068b28" &&
            python3 -m zipfile -e "$folder"/*.whl "$folder" &&
            chmod +x "$folder"/*.data/purelib/highsbox/highs_dist/bin/highs &&
            mkdir -p "${highs%/*}" && rm -rf "$highs" && mv "$folder"/*.data/purelib/highsbox/highs_dist "$highs" || status=1
        rm -rf "$folder"
        return $status
    }
    if [[ ! -x $highs/bin/highs ]]; then
        echo "setup: missing HiGHS (integer programs beside another solver)"
        if ! fetch_highs; then echo "setup: HiGHS did not come; skipped: integer programs beside another solver" >&2; fi
    fi
fi

# Grafana's schema as it publishes it, for the oldest and the newest version that the dashboards are held against. Python reads classes out
# of a wheel as it is.
if [[ ${1:-} == test ]]; then
    schemas=${CARGO_TARGET_DIR:-$PWD/target}/grafana
    fetch_schema() {
        local folder status=0
        folder=$(mktemp -d)
        wheel "$folder" "grafana-foundation-sdk==$1!$2 --hash=sha256:$3" &&
            mkdir -p "$schemas" && mv "$folder"/*.whl "$schemas/$2.whl" || status=1
        rm -rf "$folder"
        return $status
    }
    while read -r epoch version sum; do
        if ! echo "$sum  $schemas/$version.whl" | sha256sum --check --status 2>/dev/null; then
            echo "setup: missing Grafana's schema of $version (the dashboards)"
            if ! fetch_schema "$epoch" "$version" "$sum" </dev/null; then
                echo "setup: Grafana's schema of $version did not come; skipped: the dashboards against it" >&2
            fi
        fi
    done <<'END'
1769699796 10.4.0 e3e9e59effc17fa7a3bacaed40dcea2ecc39d6cc4c37dc7b494968afaf35a7b4
1769699379 11.6.0 92d7a8144eba0fa802e728fb70e63d74b056fb1195ff116d812ad7a4ccfa5eca
END
fi
