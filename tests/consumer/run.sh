#!/usr/bin/env bash
# Installs a finished build, moves the installation elsewhere (nothing in it may know where it was made), and builds and
# runs the project beside this script against it.
#
#   tests/consumer/run.sh BUILD_FOLDER
set -euo pipefail

source_dir=$(cd "$(dirname "$0")" && pwd)
repo_dir=$(cd "$source_dir/../.." && pwd)
build_dir=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/made" >/dev/null
mv "$work/made" "$work/moved"
for place in "$repo_dir" "$build_dir" "$work/made"; do
    if grep -rF --include='*.cmake' -e "$place/" "$work/moved"; then
        echo "consumer: the installed CMake files above name $place" >&2
        exit 1
    fi
done

cmake -S "$source_dir" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/moved" >/dev/null
cmake --build "$work/build"
found=$("$work/build/consumer" "$repo_dir/models/tiny-shapes")
expected='lamina 0.1.0: 64 x 32'
if [ "$found" != "$expected" ]; then
    echo "consumer: printed '$found'; expected '$expected'" >&2
    exit 1
fi
echo "consumer: builds and runs against the installed library"
