#!/usr/bin/env bash
# Installs hash-pinned requirement files, then this package in place: install.sh VENV FILE…
# Says one line per step with what it took; the installers themselves stay quiet unless something fails.
set -euo pipefail
venv=$1
shift
files=()
for file in "$@"; do files+=(-r "$file"); done
if command -v uv >/dev/null; then
  installer=uv
  install() { uv pip install --quiet --python "$venv/bin/python" "$@"; }
  compile=(--compile-bytecode)
else
  installer=pip
  install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" 2> >(grep -v '^WARNING: Location' >&2); }
  compile=()
fi

step() { # step WORDS COMMAND…
  local words=$1 begun=$SECONDS
  shift
  printf '%s … ' "$words" >&2
  "$@"
  printf 'done (%s s)\n' $((SECONDS - begun)) >&2
}

packages=$(grep -hE '^[A-Za-z0-9]' "$@" | wc -l)
step "[1/2] installing $((packages)) pinned packages with $installer (the first time takes a minute)" \
  install --require-hashes ${compile[@]+"${compile[@]}"} "${files[@]}"
step "[2/2] installing Lineloop itself in $venv" install --no-deps --no-build-isolation --no-index --editable .
