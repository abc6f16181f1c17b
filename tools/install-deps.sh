#!/usr/bin/env bash
# Installs the Debian packages of tools/packages.txt that this machine lacks, and says which. Silent, and without a look
# at the network, where nothing is missing.
#
#   tools/install-deps.sh [--dry-run] [build] [check]     (no set named: build)
#
# PACKAGES_FILE in the environment names another list.
set -euo pipefail

list=${PACKAGES_FILE:-$(dirname "$0")/packages.txt}
dry_run=false
sets=()
for argument in "$@"; do
    case $argument in
        --dry-run) dry_run=true ;;
        build | check) sets+=("$argument") ;;
        *)
            echo "install-deps: unknown argument '$argument'; expected --dry-run, build or check" >&2
            exit 2
            ;;
    esac
done
[ ${#sets[@]} -gt 0 ] || sets=(build)

packages=()
while read -r name set _; do
    case $name in '' | '#'*) continue ;; esac
    case " ${sets[*]} " in *" $set "*) packages+=("$name") ;; esac
done <"$list"

refuse() {
    echo "install-deps: $1" >&2
    echo "install-deps: Lamina needs these Debian 12 packages, or what they are called here: ${packages[*]}" >&2
    echo "install-deps: with them in place, 'cmake --preset release && cmake --build --preset release' builds it" >&2
    exit 1
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    refuse "this is no Debian system, so packages are not installed here"
fi

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "install-deps: missing Debian packages: ${missing[*]}"
if $dry_run; then exit 0; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || refuse "installing needs root, and there is no sudo: run 'apt-get install ${missing[*]}' as root"
    as_root=(sudo)
fi

# A stale list is better than none: whether the packages can be had shows in the installation.
"${as_root[@]}" apt-get update -qq </dev/null || echo "install-deps: apt-get update failed; trying with the lists at hand" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null ||
    refuse "apt-get could not install: ${missing[*]}"
