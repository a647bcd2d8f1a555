#!/usr/bin/env bash
# Takes the pictures of the demo's report that README.md and the how-tos show. Needs chromium on the path.
set -euo pipefail
cd "$(dirname "$0")/.."
place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT

(cd "$place" && PATH="$OLDPWD/.venv/bin:$PATH" cascadia demo --plan-only --quiet)
mkdir -p docs/images

# $1: picture, $2: pixels from the top of the report, $3: height
take() {
  printf '<body style="margin:0;overflow:hidden"><iframe src="demo-plan/report.html" scrolling="no"
    style="border:0;width:1100px;height:8000px;margin-top:-%spx"></iframe>' "$2" >"$place/$1.html"
  HOME="$place" chromium --headless --no-sandbox --disable-gpu --hide-scrollbars \
    --window-size=1100,"$3" --screenshot="docs/images/$1.png" "file://$place/$1.html" 2>/dev/null
}

take report 0 1640
take report-charts 2180 1460
ls -l docs/images
