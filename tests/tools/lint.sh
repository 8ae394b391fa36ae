#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lint.sh WHAT: one static check over the whole source tree (run from its root). A missing tool is a skip
# (77) at home and a failure where CI is set.
set -eu
LC_ALL=C.UTF-8
export LC_ALL

need() {
	command -v "$1" >/dev/null 2>&1 && return
	echo "lint: no $1 here (tests/run.sh installs it)"
	[ -z "${CI:-}" ] || exit 1
	exit 77
}

# Files of ours: no build folder, nothing downloaded. Fails when there are none.
files() { # find's own tests…
	found=$(find . \( -name '.git' -o -name '.proofmark' -o -name 'build' -o -name 'build-*' -o -name '__pycache__' \) \
		-prune -o -type f "$@" -print | sort)
	[ -n "$found" ] || exit 1
	printf '%s\n' "$found"
}

check_format() {
	need clang-format-14
	files -name '*.[ch]' -not -path './fixtures/*' | xargs clang-format-14 --dry-run -Werror
}

check_spelling() {
	need codespell
	codespell
}

check_shell() {
	need shellcheck
	{
		files -name '*.sh'
		echo .ci/run
	} | xargs shellcheck
}

check_man() {
	need mandoc
	files -path './runner/man/*.[1-9]' | xargs mandoc -Tlint -W warning
	# Pages of section 5 show long lines of files as they are.
	wide=$(mandoc -Tascii -Owidth=80 runner/man/proofmark.1 | col -b | awk 'length > 80')
	[ -z "$wide" ] || { echo "proofmark.1: wider than 80 columns: $wide"; exit 1; }
}

check_python() {
	files -name '*.py' | while read -r f; do
		python3 -c 'import ast, sys; ast.parse(open(sys.argv[1], encoding="utf-8").read(), sys.argv[1])' "$f"
	done
}

# Nothing here may depend on the machine it was written on.
check_words() {
	hits=$(files -not -path './fixtures/*' |
		xargs grep -nIE 'https?://[d]eb\.|[/]work/|files\.[p]ythonhosted|[p]ypi\.org' /dev/null || true)
	[ -z "$hits" ] || { printf '%s\n' "$hits"; exit 1; }
}

check_licence() {
	missing=$(files \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' \) -not -path './fixtures/*' |
		xargs awk 'FNR == 1 { seen = 0 } /SPDX-License-Identifier: Apache-2.0/ && FNR <= 2 { seen = 1 }
			FNR == 2 && !seen { print FILENAME }')
	[ -z "$missing" ] || { echo "no SPDX line at the top: $missing"; exit 1; }
}

# Advice only: long files are usually two nouns.
check_length() {
	files -path './runner/*.c' | xargs wc -l | awk '$2 != "total" && $1 > 600 { print $2 ": " $1 " lines" }'
}

"check_$1"
