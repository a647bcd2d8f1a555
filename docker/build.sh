#!/bin/sh
# Builds the images of router, judge and controller:   docker/build.sh [TAG]
#
# The base is pinned by the digest that its registry tells now, and told here; BASE_DIGEST=sha256:... keeps to another.
# BASE, REPOSITORY (cascadia) and BUILDER (docker; another, such as podman, needs BASE_DIGEST) come from the environment.
set -eu
cd "$(dirname "$0")/.."
tag=${1:-$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' cascadia/__init__.py)}
base=${BASE:-python:3.11-slim-bookworm}
builder=${BUILDER:-docker}
digest=${BASE_DIGEST:-}
if [ -z "$digest" ]; then
  if [ "$builder" != docker ]; then
    echo "build.sh: BASE_DIGEST is not set, and only docker is asked for it; set it to the digest of $base" >&2
    exit 2
  fi
  digest=$(docker buildx imagetools inspect "$base" --format '{{.Manifest.Digest}}')
fi
echo "base: $base@$digest"
for target in router judge controller; do
  "$builder" build -f docker/Dockerfile --target "$target" --build-arg "BASE=$base" \
    --build-arg "BASE_DIGEST=$digest" -t "${REPOSITORY:-cascadia}/$target:$tag" .
done
