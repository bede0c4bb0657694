package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/remote/member"
)

// versionRecord is what --json prints, without fields that the build does not know.
type versionRecord struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"` // of the commit, as in RFC 3339
	Modified bool   `json:"modified"`       // the work tree had changes beyond the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readVersion() versionRecord {
	b := member.ReadBuild()
	r := versionRecord{Version: b.Version, Commit: b.Commit, Modified: b.Modified, Go: b.Go, Platform: b.Platform}
	if !b.Date.IsZero() {
		r.Date = b.Date.Format(time.RFC3339)
	}
	return r
}

// versionLine is what troupe version and troupe --version print.
func versionLine() string {
	r := readVersion()
	line := "troupe " + r.Version + " " + r.Platform + " " + r.Go
	if r.Commit != "" {
		line += " commit " + r.Commit
	}
	if r.Date != "" {
		line += " of " + r.Date
	}
	if r.Modified {
		line += ", modified"
	}
	return line
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Version prints the version of the program, the commit that it was built from and that commit's date, as far as the build
knows them, and the version of Go and the platform. The version is what servers tell each other, and what status and doctor show.`,
		Example: "  troupe version\n  troupe version --json",
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), readVersion())
			}
			_, err := plain.Println(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
