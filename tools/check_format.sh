#!/usr/bin/env bash
# Checks that every source file is laid out as .clang-format says; with --fix, lays it out so.
# CLANG_FORMAT names another binary; the rule is Debian 12's version 14.
set -euo pipefail
cd "$(dirname "$0")/.."

clang_format=${CLANG_FORMAT:-clang-format}
wanted=14
version=$("$clang_format" --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "$version" != "$wanted" ]; then
    echo "check_format: $clang_format is version $version; the sources are laid out by version $wanted" >&2
    exit 1
fi

files=()
while IFS= read -r -d '' file; do
    [ -e "$file" ] && files+=("$file")
done < <(git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh')
if [ ${#files[@]} -eq 0 ]; then
    echo "check_format: no source files found" >&2
    exit 1
fi

if [ "${1:-}" = --fix ]; then
    "$clang_format" -i "${files[@]}"
    exit
fi

if ! report=$("$clang_format" --dry-run "${files[@]}" 2>&1); then
    echo "$report" >&2
    exit 1
fi
# One line a file: where it first differs.
faults=$(awk -F: '/^[^ ]+:[0-9]+:[0-9]+: / && !seen[$1]++ { print $1 ":" $2 ": not laid out as .clang-format says" }' <<<"$report")
if [ -n "$faults" ]; then
    echo "$faults"
    echo "check_format: repair with 'make format'" >&2
    exit 1
fi
