package member

import (
	"runtime/debug"
	"testing"
	"time"
)

func TestBuildOf(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	day := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	own := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: version}, Settings: settings}
	}
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.time", Value: "2026-03-01T12:00:00+01:00"}, {Key: "vcs.modified", Value: "true"}}
	embedded := func(d debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: "example.com/program", Version: "v7.0.0"}, Deps: []*debug.Module{{Path: "example.com/other", Version: "v3.0.0"}, &d}, Settings: vcs}
	}
	for _, c := range []struct {
		name                  string
		info                  *debug.BuildInfo
		version, commit, date string
		want                  Build
	}{
		{"release", own("v0.1.1-0.20260301110000-0123456789ab", vcs...), "v0.1.0", "fedc", "2026-03-01T11:00:00Z", Build{Version: "v0.1.0", Commit: "fedc", Date: day}},
		{"work tree", own("v0.1.1-0.20260301110000-0123456789ab+dirty", vcs...), "", "", "", Build{Version: "v0.1.1-0.20260301110000-0123456789ab+dirty", Commit: hash, Date: day, Modified: true}},
		{"version alone", own("(devel)", vcs...), "v9", "", "", Build{Version: "v9", Commit: hash, Date: day, Modified: true}},
		{"installed", own("v0.2.0"), "", "", "", Build{Version: "v0.2.0"}},
		{"without a repository", own(""), "", "", "", Build{Version: "(devel)"}},
		{"nothing", nil, "", "", "", Build{Version: "(unknown)"}},
		{"embedded", embedded(debug.Module{Path: modulePath, Version: "v0.3.0"}), "", "", "", Build{Version: "v0.3.0"}},
		{"embedded, replaced", embedded(debug.Module{Path: modulePath, Version: "v0.3.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.3.1"}}), "", "", "", Build{Version: "v0.3.1"}},
		{"embedded from a folder", embedded(debug.Module{Path: modulePath, Version: "v0.3.0", Replace: &debug.Module{Path: "../troupe"}}), "", "", "", Build{Version: "v0.3.0"}},
		{"not a date", own("v0.2.0"), "", "fedc", "yesterday", Build{Version: "v0.2.0", Commit: "fedc"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := buildOf(c.info, c.version, c.commit, c.date)
			if got.Go == "" || got.Platform == "" {
				t.Errorf("Go is %q, the platform %q", got.Go, got.Platform)
			}
			got.Go, got.Platform = "", ""
			if got != c.want {
				t.Errorf("%+v, not %+v", got, c.want)
			}
		})
	}
}
