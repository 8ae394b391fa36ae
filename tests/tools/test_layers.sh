#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_layers.sh: layers.sh must see each kind of violation, and pass what is allowed.
set -eu
tools=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
failed=0

try() { # wanted exit code, file under runner/, its include, name of the rule
	rm -rf "$dir/runner"
	mkdir -p "$dir/runner/base" "$dir/runner/${2%/*}"
	cp "$tools/../../runner/README.md" "$dir/runner/"
	echo '#include "base/err.h"' >"$dir/runner/base/ok.c"
	echo '#include "base/err.h"' >"$dir/runner/${2%/*}/ok.c"
	echo "#include \"$3\"" >"$dir/runner/$2"
	code=0
	sh "$tools/layers.sh" "$dir" >"$dir/out" 2>&1 || code=$?
	n=$((n + 1))
	if [ "$code" = "$1" ]; then
		echo "ok $n - $4"
	else
		echo "not ok $n - $4"
		sed 's/^/# /' "$dir/out"
		failed=1
	fi
}

echo 1..8
try 0 load/x.c model/record.h allows_a_lower_rank
try 0 load/x.c load/load.h allows_the_own_folder
try 1 base/x.c model/record.h refuses_a_higher_rank
try 1 load/x.c engine/engine.h refuses_a_neighbour_of_the_same_rank
try 1 report/x.c trial/trial.h refuses_reports_that_see_a_live_run
try 1 trial/x.c store/sign.h refuses_keys_outside_the_command_line
try 0 cli/x.c store/sign.h allows_keys_on_the_command_line
try 1 newfolder/x.c base/err.h refuses_a_folder_without_a_rank
exit $failed
