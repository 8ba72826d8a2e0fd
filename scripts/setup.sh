#!/bin/sh
# Makes .venv with the versions of constraints.txt; the stamp given as argument is written last.
set -eu
stamp=$1
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "PYTHON must be Python 3.11 or newer with the venv module, not $python (Debian: apt-get install python3-venv)" >&2
    exit 2
}
for tool in g++ make perl; do
    command -v "$tool" >/dev/null || {
        echo "$tool must be installed (Debian: apt-get install g++ make perl)" >&2
        exit 2
    }
done
echo "Setting up .venv (once): environment of $python ..."
"$python" -m venv .venv
log=.venv/setup.log
# Python compiles what is imported; all modules of all packages would take half a minute more.
{
    .venv/bin/python -m pip install --no-compile --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' 2>"$log" ||
        touch .venv/.failed
} | {
    step=
    while IFS= read -r line; do
        case $line in
            Collecting*) now=downloading ;;
            "Building wheels"*) now=building ;;
            "Installing collected"*) now=installing ;;
            *) continue ;;
        esac
        [ "$now" = "$step" ] || echo "Setting up .venv (once): $now packages ..."
        step=$now
    done
}
[ ! -e .venv/.failed ] || {
    rm .venv/.failed
    tail -n 5 "$log" >&2
    echo "pip must succeed, not fail; $log has all of its messages" >&2
    exit 1
}
# Paths relative to the file: in the C locale Python reads only ASCII there.
for paths in .venv/lib/python3*/site-packages/_xpulpnn.pth; do
    [ ! -f "$paths" ] || printf '../../../../%s\n' rtl sim sw >"$paths"
done
.venv/bin/xpulpnn --version >/dev/null || {
    echo ".venv/bin/xpulpnn must start, not end with the error above" >&2
    exit 1
}
touch "$stamp"
echo "Ready: .venv/bin/xpulpnn; .venv/bin/xpulpnn doctor shows which tools were found."
