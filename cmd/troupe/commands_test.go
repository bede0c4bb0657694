package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test -run TestCommandsPage -update .

var update = flag.Bool("update", false, "write docs/commands.md")

// TestCommandsPage checks that docs/commands.md matches the commands' help. With -update it writes the page.
func TestCommandsPage(t *testing.T) {
	const path = "../../docs/commands.md"
	b := &strings.Builder{}
	b.WriteString("# Commands\n\nWhat `troupe help` says of each command. `go generate ./cmd/troupe` writes this page.\n\n")
	b.WriteString(literal(rootHelp) + "\n| command | what it does |\n| --- | --- |\n")
	root := newRoot(os.Stdin)
	commands := leaves(root)
	for _, cmd := range commands {
		fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
	}
	for _, cmd := range commands {
		fmt.Fprintf(b, "\n## %s\n\n%s", cmd.CommandPath(), literal(cmd.UseLine()))
		if cmd.Long != "" {
			b.WriteString("\n" + literal(cmd.Long))
		} else {
			b.WriteString("\n" + cmd.Short + ".\n")
		}
		if cmd.Example != "" {
			b.WriteString("\n" + literal(cmd.Example))
		}
		if flags := flagTable(cmd); flags != "" {
			b.WriteString("\n| flag | default | what it is |\n| --- | --- | --- |\n" + flags)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != b.String() {
		t.Error("docs/commands.md is not what the code says: go generate ./cmd/troupe")
	}
}

// TestManualPagesArePackaged checks that .goreleaser.yaml lists the manual page of each command: RPM packages know documentation by its type, for which
// there are no patterns.
func TestManualPagesArePackaged(t *testing.T) {
	release, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(os.Stdin)
	root.InitDefaultCompletionCmd()
	pages := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")] = true
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				visit(c)
			}
		}
	}
	visit(root)
	listed := regexp.MustCompile(`(?m)^ *- \{ src: \.cache/packaging/man/(\S+)\.1\.gz, dst: /usr/share/man/man1/(\S+)\.1\.gz, packager: rpm, type: doc, .*\}$`)
	for _, line := range listed.FindAllStringSubmatch(string(release), -1) {
		if line[1] != line[2] || !pages[line[1]] {
			t.Errorf("%s is not the page of a command", line[0])
		}
		delete(pages, line[1])
	}
	for page := range pages {
		t.Errorf(".goreleaser.yaml does not list the page %s", page)
	}
}

// documentedFlag is a flag in a document's command line, and its value.
var documentedFlag = regexp.MustCompile(`(?:^|\s)--([a-z][a-z_-]*)(?:[= ]'?([^\s']+))?`)

// TestFlagsOfDocuments checks that the commands that documents show have the flags that they are given. An unknown flag of serve is a job, and has an
// address.
func TestFlagsOfDocuments(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(os.Stdin)
	seen := 0
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "commands.md" }) // that is what the commands say
	for _, file := range append(files, "../../README.md", "../../ARCHITECTURE.md", "../../SECURITY.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range regexp.MustCompile("\\btroupe ([^\n`|#]+)").FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			words := strings.Fields(line[1])
			names := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, "-") })
			if names <= 0 {
				continue
			}
			cmd, _, err := root.Find(words[:names])
			if err != nil || cmd == root {
				continue // a sentence about Troupe
			}
			cmd.InitDefaultHelpFlag()
			for _, flag := range documentedFlag.FindAllStringSubmatch(line[1], -1) {
				seen++
				if cmd.Flags().Lookup(flag[1]) == nil && (cmd.Name() != "serve" || !strings.Contains(flag[2], ":")) {
					t.Errorf("%s: troupe %s has no flag --%s: troupe %s", file, cmd.Name(), flag[1], line[1])
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d flags are found in documents", seen)
	}
}

// leaves returns the commands that do something, ordered by name.
func leaves(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, leaves(c)...)
		}
	}
	if len(all) == 0 {
		all = append(all, cmd)
	}
	return all
}

// literal returns a text as a block that keeps its lines.
func literal(text string) string {
	return "```text\n" + strings.Trim(text, "\n") + "\n```\n"
}

// flagTable returns a table with a row for each flag that the help shows.
func flagTable(cmd *cobra.Command) string {
	b := &strings.Builder{}
	cell := strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := strings.TrimSpace("--" + f.Name + " " + kind)
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value := f.DefValue
		if value != "" && value != "[]" {
			value = "`" + value + "`"
		} else {
			value = ""
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, value, cell.Replace(usage))
	})
	return b.String()
}
