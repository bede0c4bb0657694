package conventions

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLibrariesLogToTheirLogger checks that packages write to the process's default logger only if their configuration
// has no logger.
func TestLibrariesLogToTheirLogger(t *testing.T) {
	allowed := regexp.MustCompile(`\b\w+(\.\w+)* = slog\.Default\(\)|log: +slog\.Default\(\)|cmp\.Or\(\w+(\.\w+)*, slog\.Default\(\)\)|\{level: slog\.LevelError, log: slog\.Default\(\)\}`)
	global := regexp.MustCompile(`\bslog\.(Default|Debug|Info|Warn|Error|Log|DebugContext|InfoContext|WarnContext|ErrorContext|LogAttrs)\(|\blog\.(Print|Fatal|Panic)(f|ln)?\(`)
	for _, p := range goList(t, "./...") {
		if folder, _ := folderOf(p.ImportPath); folder == "cmd" || folder == "examples" || folder == "e2e" || p.Name == "main" {
			continue
		}
		for _, name := range p.GoFiles {
			content, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(content), "\n") {
				line, _, _ := strings.Cut(line, "//")
				if global.MatchString(line) && !allowed.MatchString(line) {
					t.Errorf("%s/%s:%d: %s", p.ImportPath, name, i+1, strings.TrimSpace(line))
				}
			}
		}
	}
}
