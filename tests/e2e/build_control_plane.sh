#!/usr/bin/env bash
# Builds kube-apiserver, kube-controller-manager and kube-scheduler 1.20.2 from Debian bookworm's own source package into FOLDER, with
# its etcd beside them: `build_control_plane.sh FOLDER`. Debian only; nothing is installed, packages are unpacked beside. About five minutes
# of two cores and 3 GB, once.
set -euo pipefail
out=${1:?say which folder the programs go to}
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d "$out/.build-XXXXXX")
trap 'rm -rf "$work"' EXIT
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for needed in apt-get dpkg-deb tar openssl "$keyring"; do
  [ -e "$needed" ] || command -v "$needed" >/dev/null || { echo "build_control_plane: needs $needed (Debian)" >&2; exit 2; }
done
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -1)
[ -n "$mirror" ] || { echo "build_control_plane: apt knows no mirror; run apt-get update" >&2; exit 2; }

mkdir -p "$work"/{apt/lists/partial,apt/cache/archives/partial,deb,go/src/k8s.io}
cd "$work"
for kind in deb deb-src; do echo "$kind [signed-by=$keyring] $mirror bookworm main"; done >apt/sources.list
cat >apt/apt.conf <<END
Dir::Etc::sourcelist "$work/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::Lists "$work/apt/lists";
Dir::Cache "$work/apt/cache";
APT::Sandbox::User "root";
END
export APT_CONFIG=$work/apt/apt.conf
apt-get update -qq
(cd deb && apt-get download -qq golang-1.19-go golang-1.19-src etcd-server golang-github-modern-go-reflect2-dev \
  && apt-get source --download-only -qq kubernetes)
for package in deb/*.deb; do dpkg-deb -x "$package" tree; done
tar xzf deb/kubernetes_*.orig.tar.gz -C go/src/k8s.io
mv go/src/k8s.io/kubernetes-* go/src/k8s.io/kubernetes
cd go/src/k8s.io/kubernetes

# The vendored reflect2 does not build with this Go; Debian's does.
reflect2=vendor/github.com/modern-go/reflect2
rm -rf "$reflect2"
cp -r "$work/tree/usr/share/gocode/src/github.com/modern-go/reflect2" "$reflect2"
rm -f "$reflect2"/*_test.go

export GOROOT=$work/tree/usr/lib/go-1.19 GOPATH=$work/go GOCACHE=$work/cache GO111MODULE=off GOPROXY=off CGO_ENABLED=0
go=$GOROOT/bin/go
"$go" build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
inputs=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg staging/src/k8s.io \
  | grep -v -e code-generator -e sample-apiserver -e /testdata/ -e _test.go | xargs -n1 dirname | LC_ALL=C sort -u \
  | sed -e 's#^staging/src/#k8s.io/kubernetes/vendor/#' -e 's#^pkg#k8s.io/kubernetes/pkg#' | paste -sd,)
"$work/openapi-gen" -i "$inputs" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
  -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$work/violations" 2>/dev/null
version=k8s.io/kubernetes/vendor/k8s.io/component-base/version
client=k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version
said="-X $version.gitVersion=v1.20.2 -X $version.gitMajor=1 -X $version.gitMinor=20 -X $version.gitTreeState=clean"
said="$said -X $client.gitVersion=v1.20.2 -X $client.gitMajor=1 -X $client.gitMinor=20"
for program in kube-apiserver kube-controller-manager kube-scheduler; do
  "$go" build -tags providerless,dockerless -gcflags=all='-N -l -dwarf=false' -ldflags "-s -w $said" -o "$out/$program" ./cmd/$program
done
cp "$work/tree/usr/bin/etcd" "$out/"
