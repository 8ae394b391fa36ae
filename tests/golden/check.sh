#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh GOLDEN_PROGRAM: the stored run is what the maker makes, and its reports are the stored ones, byte for byte.
# After a wanted change: tests/golden/renew.sh BUILD_FOLDER, then look at the difference.
set -eu
golden=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$golden" make "$work/run"
"$golden" judge "$here/run" "$work/expect"
n=0 bad=0
compare() { # NAME EXPECTED GOT
	n=$((n + 1))
	if diff -u "$2" "$3" >"$work/diff"; then
		echo "ok $n - $1"
	else
		bad=$((bad + 1))
		echo "not ok $n - $1"
		head -n 20 "$work/diff" | sed 's/^/# /'
	fi
}
for f in "$here"/run/*; do
	compare "made run: $(basename "$f")" "$f" "$work/run/$(basename "$f")"
done
for f in "$here"/expect/*; do
	compare "report: $(basename "$f")" "$f" "$work/expect/$(basename "$f")"
done
echo "1..$n"
[ "$bad" -eq 0 ] && [ "$n" -gt 0 ]
