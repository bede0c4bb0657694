//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/devices/cuda/fake"
	"github.com/troupe-run/troupe/internal/extent"
)

// TestReport makes the report on the driver for tests, with small sizes: all parts run to the end, even after one that failed, and the file
// is left alone.
func TestReport(t *testing.T) {
	if !extent.Check() {
		t.Skip("make check runs it: it builds the fake driver, which takes minutes the first time")
	}
	driver := fake.Build(t)
	if _, err := exec.LookPath("make"); err != nil && os.Getenv("CI") == "" {
		t.Skipf("the tag cuda is built by make: %v", err)
	}
	file := filepath.Join(t.TempDir(), "gpu-report.md")
	cmd := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../..", "gpu-report", "GPU_REPORT=-small -tests false -within 5m -out "+file)
	cmd.Env = append(os.Environ(), "TROUPE_LIBCUDA="+driver, "TROUPE_LIBCUBLAS="+filepath.Join(filepath.Dir(driver), "libcublas.so.12"),
		"FAKE_CUDA_DEVICES=1", "CUDA_VISIBLE_DEVICES=0")
	var stderr tail
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	text := string(out)
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, &stderr, text)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the report of an emulated driver was written to the file")
	}
	if !strings.Contains(text, "**The driver was emulated") {
		t.Error("the report does not say that the driver was emulated")
	}
	if !strings.Contains(text, "## What failed\n\n- Tests: the tests: exit status 1\n\n##") {
		t.Error("not just the tests failed")
	}
	for _, p := range parts {
		_, section, found := strings.Cut(text, "\n## "+p.title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if p.title != "" && p.name != "tests" && (!found || strings.Count(section, "\n| ") < 3) {
			t.Errorf("the section %q has no figures", p.title)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestNoCard checks that there is no report without a card, in a build without CUDA.
func TestNoCard(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "report")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(t.TempDir(), "gpu-report.md")
	out, err := exec.CommandContext(t.Context(), binary, "-out", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "built without CUDA") {
		t.Errorf("got %v: %s", err, out)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a report was written")
	}
}

func TestJoin(t *testing.T) {
	first := []event{{Head: []string{"size", "a"}}, {Row: []string{"1", "a1"}}, {Row: []string{"2", "a2"}}, {Failed: "3"}}
	second := []event{{Head: []string{"size", "b"}}, {Row: []string{"2", "b2"}}, {Row: []string{"3", "b3"}}}
	got := render(join(slices.Clone(first), second))
	want := "| size | a | b |\n| --- | --- | --- |\n| 1 | a1 |  |\n| 2 | a2 | b2 |\n| 3 |  | b3 |\n\n**Failed:**\n\n```\n3\n```\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := render(join(nil, first)), "| size | a |\n| --- | --- |\n| 1 | a1 |\n| 2 | a2 |\n\n**Failed:**\n\n```\n3\n```\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
