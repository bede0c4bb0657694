#!/bin/sh
# The argument is "remove" (deb) or 0 (rpm) when the package goes, and something else when it is upgraded.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl stop 'troupe@*.service'
	fi
	;;
esac
