package remote

import "runtime/debug"

// Version is the version of the module that the process was built from, with the commit for a build from a work tree.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	if info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
