#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# renew.sh [BUILD_FOLDER]: makes the golden run and its reports anew. Look at `git diff tests/golden` before you keep it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build}
ninja -C "$build" tests/golden/golden >/dev/null
rm -rf "$here/run" "$here/expect"
"$build/tests/golden/golden" make "$here/run"
"$build/tests/golden/golden" judge "$here/run" "$here/expect"
