#!/usr/bin/env bash
# Installs hash-pinned requirement files, then this package in place: install.sh VENV FILE…
set -euo pipefail
venv=$1
shift
files=()
for file in "$@"; do files+=(-r "$file"); done
echo "installing ${*} …" >&2
if command -v uv >/dev/null; then
  uv pip install --quiet --python "$venv/bin/python" --require-hashes --compile-bytecode "${files[@]}"
  uv pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
else
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes "${files[@]}" 2> >(grep -v '^WARNING: Location' >&2)
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .
fi
