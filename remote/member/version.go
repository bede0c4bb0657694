package member

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"time"
)

const modulePath = "github.com/troupe-run/troupe"

// Releases set these with the linker's -X. Empty ones come from what the go command wrote into the binary.
var (
	version string // such as v0.1.0
	commit  string // the full hash
	date    string // of the commit, as in RFC 3339
)

// Build describes the sources that the process was built from, and how.
type Build struct {
	// Version is that of Troupe's module: a release such as v0.1.0, a version that the go command derived from a commit, "(devel)" if the go
	// command knew none, or "(unknown)" if the binary has no build information.
	Version string
	// Commit is the full hash of the commit and Date its time; empty and the zero Time if the build did not see a repository. Modified reports
	// whether the work tree had uncommitted changes.
	Commit   string
	Date     time.Time
	Modified bool
	// Go is the version of Go, Platform is GOOS/GOARCH, such as linux/amd64.
	Go, Platform string
}

// Version returns the version that this task reports to other tasks, clients and operators; see Build.
func Version() string { return ReadBuild().Version }

// ReadBuild returns what is known about the build of the process.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = nil
	}
	return buildOf(info, version, commit, date)
}

// buildOf combines the linker's values with what the go command wrote; info may be nil.
func buildOf(info *debug.BuildInfo, version, commit, date string) Build {
	b := Build{Version: version, Commit: commit, Date: parseDate(date), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		b.Version = cmp.Or(b.Version, "(unknown)")
		return b
	}
	if info.Main.Path != modulePath {
		// Another program embeds Troupe: the repository is that program's.
		b.Version = cmp.Or(b.Version, dependency(info), "(devel)")
		return b
	}
	b.Version = cmp.Or(b.Version, info.Main.Version, "(devel)")
	if commit != "" {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = parseDate(s.Value)
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// dependency returns the version of Troupe's module that a program was built with; empty if unknown.
func dependency(info *debug.BuildInfo) string {
	for _, d := range info.Deps {
		if d.Path != modulePath {
			continue
		}
		if d.Replace != nil && d.Replace.Version != "" {
			return d.Replace.Version
		}
		return d.Version
	}
	return ""
}

func parseDate(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{} // unknown
	}
	return t.UTC()
}
