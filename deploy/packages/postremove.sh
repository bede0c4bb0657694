#!/bin/sh
# The argument is "remove" or "purge" (deb) or 0 (rpm) when the package is gone, and something else when it was upgraded.
#
# What people made stays: the tasks' files in /etc/troupe, and their drop-ins. So does the tasks' state, except for a purge.
set -e
case "$1" in
remove | 0)
	# Tasks are no longer enabled: the links would lead nowhere.
	for link in /etc/systemd/system/*.wants/troupe@*.service /etc/systemd/system/*.requires/troupe@*.service; do
		if [ -L "$link" ]; then
			rm -f "$link"
		fi
	done
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload
		systemctl reset-failed 'troupe@*.service'
	fi
	;;
purge)
	# The first is a link to the second, since the tasks' user is a dynamic one.
	rm -rf /var/lib/troupe /var/lib/private/troupe
	;;
esac
