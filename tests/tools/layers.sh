#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# layers.sh [ROOT]: holds the includes of ROOT/runner to the ranks in the table of ROOT/runner/README.md.
# A file includes its own folder or a lower rank; store/sign.h and store/bundle.h are for cli (and store) only.
set -eu
LC_ALL=C
export LC_ALL
cd -- "${1:-.}/runner"

# shellcheck disable=SC2016 # awk's own dollars
find . -name '*.[ch]' | sort | xargs awk '
	function folder_of(path) {
		sub(/^\.\//, "", path)
		return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : ""
	}
	function bad(text) {
		printf "runner/%s:%d: %s\n", substr(FILENAME, 3), FNR, text
		n_bad++
	}
	BEGIN {
		while ((getline line < "README.md") > 0)
			if (split(line, cell, /[ \t]*\|[ \t]*/) > 3 && cell[3] ~ /^[0-9]+$/)
				rank[cell[2]] = cell[3] + 0
	}
	FNR == 1 { n_files++ }
	/^[ \t]*#[ \t]*include[ \t]*"/ {
		split($0, part, "\"")
		mine = folder_of(FILENAME)
		theirs = folder_of(part[2])
		if (mine == "" || theirs == mine)
			next
		if (!(mine in rank))
			bad("folder " mine " has no rank in runner/README.md")
		else if (!(theirs in rank))
			bad("\"" part[2] "\" is in no folder with a rank")
		else if (rank[theirs] >= rank[mine])
			bad(mine " (rank " rank[mine] ") includes \"" part[2] "\" (rank " rank[theirs] ")")
		else if (part[2] ~ /^store\/(sign|bundle)\.h$/ && mine != "cli")
			bad("\"" part[2] "\" is for cli only")
		n_includes++
	}
	END {
		if (!n_files || !n_includes) {
			print "layers: found nothing to check"
			exit 1
		}
		printf "layers: %d files, %d includes of other folders, %d against the ranks\n", n_files, n_includes, n_bad
		exit n_bad > 0
	}' || exit 1
