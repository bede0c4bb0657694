package remote

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"time"
)

const modulePath = "github.com/troupe-run/troupe"

// Releases set these with the linker's -X. What is empty comes from what the go command has written into the binary.
var (
	version string // such as v0.1.0
	commit  string // the full hash
	date    string // of the commit, as in RFC 3339
)

// Build tells which sources the process was built from, and how.
type Build struct {
	// Version is that of Troupe's module: a release such as v0.1.0, a version that the go command made of a commit, "(devel)" where
	// the go command was told none, or "(unknown)" if the binary says nothing at all.
	Version string
	// Commit is the full hash of the commit, and Date when it was made; empty and the zero Time where the build did not see a
	// repository. Modified tells that the work tree had changes beyond it.
	Commit   string
	Date     time.Time
	Modified bool
	// Go is the version of Go, Platform such as linux/amd64.
	Go, Platform string
}

// Version is the version that this task tells other tasks, clients and operators; see Build.
func Version() string { return ReadBuild().Version }

// ReadBuild reads what is known of the build of the process.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = nil
	}
	return buildOf(info, version, commit, date)
}

// buildOf puts together what the linker was told and what the go command has written; info may be nil.
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

// dependency is the version of Troupe's module that a program was built with; empty if it is not told.
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
		return time.Time{} // not told
	}
	return t.UTC()
}
