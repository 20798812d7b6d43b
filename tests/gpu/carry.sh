#!/usr/bin/env bash
# Makes a directory that holds all that `make test-gpu` needs, for a machine with CUDA and without network:
#   tests/gpu/carry.sh DIRECTORY [PYTHON]
# There, `bash DIRECTORY/run.sh` installs it into DIRECTORY/.venv and runs the tests. The machine needs
# the same version of Python as PYTHON (python3), which also fetches the packages: about 3 GB.
set -euo pipefail
target=$(mkdir -p "$1" && cd "$1" && pwd)
python=${2:-python3}
root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)

rm -rf "$target/det-compat" && mkdir -p "$target/det-compat" "$target/wheels"
git -C "$root" archive HEAD | tar -x -C "$target/det-compat"
"$python" -m pip wheel --wheel-dir "$target/wheels" \
  --constraint <(grep -v '^torch==' "$root/constraints.txt") ${TORCH:-torch} "$root[dev]" wheel
rm -f "$target"/wheels/det_compat-*.whl

cat > "$target/run.sh" <<'RUN'
#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
python=${PYTHON:-python3}
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --no-index --find-links wheels --upgrade setuptools wheel
.venv/bin/python -m pip install --no-index --find-links wheels --no-build-isolation --editable 'det-compat[dev]'
cd det-compat
.venv/bin/python -c 'pass' 2>/dev/null || ln -sfn ../.venv .venv
touch ../.venv/.setup-done
exec make test-gpu
RUN
echo "carry $target, and there: bash run.sh"
