#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# renew.sh [BUILD_FOLDER]: makes the golden runs and their reports anew. Look at `git diff tests/golden` before you keep it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build}
ninja -C "$build" tests/golden/golden >/dev/null
for name in run leak; do
	at=$here
	[ "$name" = run ] || at=$here/$name
	rm -rf "$at/run" "$at/expect"
	"$build/tests/golden/golden" make "$name" "$at/run"
	"$build/tests/golden/golden" judge "$at/run" "$at/expect"
done
