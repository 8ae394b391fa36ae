#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# peers.sh DIR [BUILD]: other load clients from PyPI, in virtual environments under DIR, beside ours in one run.
# Opt-in: downloads some 500 MB. The native client of SGLang is taken out of its wheel; it needs nothing else.
set -eu
[ $# -ge 1 ] || { echo "usage: peers.sh DIR [BUILD]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
build=$(cd "${2:-$here/../../build}" && pwd)

if [ ! -e "$dir/sglang/_bench.so" ]; then
	python3 -m venv "$dir/get"
	"$dir/get/bin/pip" -q download --no-deps -d "$dir/wheels" sglang
	mkdir -p "$dir/sglang"
	"$dir/get/bin/python" - "$dir" <<'END'
import glob, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/wheels/sglang-*.whl")[0])
name = next(n for n in wheel.namelist() if "/_bench." in n and n.endswith(".so"))
open(sys.argv[1] + "/sglang/_bench.so", "wb").write(wheel.read(name))
END
fi
for peer in aiperf genai-bench; do
	[ -e "$dir/$peer/installed" ] && continue
	python3 -m venv "$dir/$peer"
	if "$dir/$peer/bin/pip" -q install "$peer"; then
		"$dir/$peer/bin/pip" list --format freeze | grep -i "^$peer==" >"$dir/$peer/installed"
	else
		echo "peers.sh: $peer cannot be installed here" >&2
	fi
done
exec python3 "$here/peers.py" "$dir" "$build/tests/bench/bench_client" "$build/tests/bench/bench_flood" "$build/tests/scripted-engine"
