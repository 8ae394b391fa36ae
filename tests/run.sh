#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/run.sh [--add PASSED,FAILED,SKIPPED]
#
# Installs what the tests need (Debian 12, root or sudo; a second run installs nothing), builds with gcc
# (build/) and with clang and its sanitizers (build-clang/), runs every suite, and closes with one line
# "N passed, N failed, N skipped". --add counts what ran before. Exit 1 when anything failed or nothing ran.
set -eu
unset CDPATH
cd -- "$(dirname -- "$0")/.."
root=$PWD
log=$root/.proofmark/log
testenv=$root/.proofmark/testenv
mkdir -p "$log"

packages="$(sh quickstart.sh --packages) python3-venv clang-14 libclang-rt-14-dev clang-format-14 codespell
	shellcheck mandoc bsdextrautils bash zsh fish docker-registry"
# Independent readers of our formats: none of it is part of the product.
python_packages='securesystemslib==1.6.0 cryptography==50.0.2 jsonschema==4.26.0'

say() {
	printf 'run.sh: %s\n' "$*"
}

# Something before the suites went wrong: that is one failed test.
give_up() {
	say "$1; the end of $2:"
	tail -n 25 "$2" | sed 's/^/  /'
	python3 tests/tools/count.py --add "$(echo "$add" | awk -F, '{ print $1 "," $2 + 1 "," $3 }')" || true
	exit 1
}

install_packages() {
	missing=
	for p in $packages; do
		dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^.i' || missing="$missing $p"
	done
	[ -n "$missing" ] || return 0
	say "installing Debian packages:$missing"
	sudo=
	[ "$(id -u)" -eq 0 ] || sudo=sudo
	# shellcheck disable=SC2086 # both are lists of words
	{
		$sudo apt-get -q -o DPkg::Lock::Timeout=120 update &&
			$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 \
				install --no-install-recommends $missing
	} >"$log/apt-tests.log" 2>&1 </dev/null || give_up 'cannot install Debian packages' "$log/apt-tests.log"
}

install_python_packages() {
	[ "$(cat "$testenv/ok" 2>/dev/null)" != "$python_packages" ] || return 0
	say "installing into .proofmark/testenv: $python_packages"
	rm -rf "$testenv"
	# shellcheck disable=SC2086 # a list of words
	{
		/usr/bin/python3 -m venv "$testenv" &&
			"$testenv/bin/python3" -m pip install -q --disable-pip-version-check --only-binary=:all: \
				$python_packages
	} >"$log/testenv.log" 2>&1 </dev/null || give_up 'cannot install the Python packages' "$log/testenv.log"
	echo "$python_packages" >"$testenv/ok"
}

# A folder that is there already is brought to the same options, so that the first build is not lost.
build() { # folder, meson options…
	folder=$1
	shift
	say "building $folder"
	again=
	[ ! -e "$folder/build.ninja" ] || again=--reconfigure
	# shellcheck disable=SC2086 # empty or one word
	meson setup $again "$folder" -Dwerror=true "$@" >"$log/$folder.log" 2>&1 || give_up "meson setup $folder failed" "$log/$folder.log"
	ninja -C "$folder" >"$log/$folder.log" 2>&1 || give_up "building $folder failed" "$log/$folder.log"
}

run_suites() { # folder, options of meson test…
	folder=$1
	shift
	say "testing $folder"
	rm -f "$folder/meson-logs/testlog.json"
	meson test -C "$folder" --no-rebuild --print-errorlogs "$@" </dev/null || true
}

add=0,0,0
if [ "${1:-}" = --add ]; then
	add=${2:?"--add wants PASSED,FAILED,SKIPPED"}
fi
install_packages
install_python_packages

build build
CC=clang-14 build build-clang -Db_sanitize=address,undefined -Db_lundef=false

export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
run_suites build
run_suites build-clang --suite unit --suite schema --suite fuzz --timeout-multiplier 4

python3 tests/tools/count.py --add "$add" build/meson-logs/testlog.json build-clang/meson-logs/testlog.json
