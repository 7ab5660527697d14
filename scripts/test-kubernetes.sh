#!/usr/bin/env bash
# Tries controller and exporter for Kubernetes with a real kube-apiserver and etcd.
#
# Both are taken from the folder KUBEBUILDER_ASSETS if it is set. Else they are put into target/kubernetes, once, which takes some
# minutes: etcd is Debian's, and kube-apiserver is built of the sources that Debian 12 has (1.20, of 2021). That one knows no scheduling
# gates, so the controller's gangs need a newer one.
set -euo pipefail
cd "$(dirname "$0")/.."

# build FOLDER: puts both programs into it.
build() {
    local folder=$1 mirror own version=v1.20.2
    # All that is fetched and made on the way is below this one.
    local scratch=$folder/scratch
    rm -rf "$scratch"
    mkdir -p "$scratch"/{lists/partial,archives/partial,path/src/k8s.io}
    # The mirror of this machine, without a change of its lists. Others than Debian's may stand before it, and have no such suite.
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 'Codename: bookworm' 'Component: main' | head -n 1)
    if [[ -z $mirror ]]; then echo "test-kubernetes: apt has no list of Debian bookworm; run: apt-get update" >&2 && return 1; fi
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >"$scratch/sources.list"
    own=(-qq -o Dir::Etc::sourcelist="$scratch/sources.list" -o Dir::Etc::sourceparts=/dev/null)
    own+=(-o Dir::State::lists="$scratch/lists" -o Dir::Cache="$scratch" -o APT::Sandbox::User=root)
    apt-get "${own[@]}" update
    (cd "$scratch" && apt-get "${own[@]}" source --download-only kubernetes && apt-get -qq -o APT::Sandbox::User=root download etcd-server)
    # Not installed, which would start it.
    dpkg -x "$scratch"/etcd-server_*.deb "$scratch/etcd"
    tar -xf "$scratch"/kubernetes_*.orig.tar.gz -C "$scratch/path/src/k8s.io"
    mv "$scratch"/path/src/k8s.io/kubernetes-* "$scratch/path/src/k8s.io/kubernetes"
    (
        cd "$scratch/path/src/k8s.io/kubernetes"
        # What it brings of this package does not work with a Go from 1.18 on; Debian's is newer.
        rm -f vendor/github.com/modern-go/reflect2/*.{go,s}
        cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} vendor/github.com/modern-go/reflect2
        # In GOPATH: all that it needs is in its folder `vendor`, and nothing is fetched.
        export GO111MODULE=off GOPATH=$scratch/path GOCACHE=$scratch/cache GOFLAGS='' GOPROXY=off CGO_ENABLED=0
        # The one file that its own Makefile generates before (build/root/Makefile.generated_files).
        go build -o "$scratch/openapi-gen" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
        inputs=$(grep -rl '+k8s:openapi-gen=' --include='*.go' pkg vendor/k8s.io/{api,apimachinery,apiserver,kube-aggregator}/ \
            vendor/k8s.io/{apiextensions-apiserver,client-go,cloud-provider,component-base,controller-manager,metrics}/ \
            vendor/k8s.io/{kube-controller-manager,kube-proxy,kube-scheduler,kubelet}/ |
            xargs -n 1 dirname | LC_ALL=C sort -u | grep -v /test | sed 's|^|k8s.io/kubernetes/|' | paste -sd ,)
        "$scratch/openapi-gen" -i "$inputs" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
            -h hack/boilerplate/boilerplate.generatego.txt -r "$scratch/violations"
        # Its version, which its own scripts ask git for.
        sed -i "s/gitVersion \(.*\)= \".*\"/gitVersion \1= \"$version\"/" vendor/k8s.io/{component-base,client-go/pkg}/version/base.go
        go build -ldflags '-s -w' -o "$scratch/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
    )
    mv "$scratch/etcd/usr/bin/etcd" "$scratch/kube-apiserver" "$folder"
    chmod -R u+w "$scratch"
    rm -rf "$scratch"
}

if [[ -z ${KUBEBUILDER_ASSETS:-} ]]; then
    # shellcheck source=/dev/null
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    if [[ $suite != bookworm ]]; then
        echo "skipped: kube-apiserver is built on Debian 12 only; elsewhere KUBEBUILDER_ASSETS names a folder with it and etcd"
        exit
    fi
    KUBEBUILDER_ASSETS=${CARGO_TARGET_DIR:-$PWD/target}/kubernetes
    if [[ ! -x $KUBEBUILDER_ASSETS/kube-apiserver ]]; then build "$KUBEBUILDER_ASSETS"; fi
    export KUBEBUILDER_ASSETS
fi
cargo test --package antiphase-topology --test kubernetes a_real_api_server -- --nocapture
