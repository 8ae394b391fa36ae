#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh GOLDEN_PROGRAM: the stored run is what the maker makes, and its reports are the stored ones, byte for byte.
# After a wanted change: tests/golden/renew.sh BUILD_FOLDER, then look at the difference.
set -eu
golden=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
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
for name in run leak; do
	at=$here
	[ "$name" = run ] || at=$here/$name
	"$golden" make "$name" "$work/$name"
	"$golden" judge "$at/run" "$work/$name-expect"
	for f in "$at"/run/*; do
		compare "$name: made: $(basename "$f")" "$f" "$work/$name/$(basename "$f")"
	done
	for f in "$at"/expect/*; do
		compare "$name: report: $(basename "$f")" "$f" "$work/$name-expect/$(basename "$f")"
	done
done
echo "1..$n"
[ "$bad" -eq 0 ] && [ "$n" -gt 0 ]
