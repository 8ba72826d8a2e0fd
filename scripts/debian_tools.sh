#!/bin/sh
# Installs Debian packages whose commands are missing, where that is allowed; else says how. Arguments: PACKAGE or
# PACKAGE=COMMAND.
for wanted in "$@"; do
    package=${wanted%%=*}
    command -v "${wanted#*=}" >/dev/null && continue
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing $package with apt-get ..."
        { apt-get update -qq && apt-get install -y -qq "$package"; } >/dev/null 2>&1 && continue
    fi
    echo "$package is missing: its tests are skipped. To install it: sudo apt-get install $package"
done
exit 0
