package main

import (
	"fmt"
	"strings"
	"testing"
)

// reads returns the percentage of new digits that a run reports as recognized.
func reads(t *testing.T, model, dir string, steps int64) (percent float64, out string) {
	t.Helper()
	var b strings.Builder
	if err := run(t.Context(), &b, "", model, dir, steps); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	var after int64
	if _, err := fmt.Sscanf(lines[len(lines)-1], "after %d steps it reads %f", &after, &percent); err != nil || after != steps {
		t.Fatalf("it printed %s: %v", b.String(), err)
	}
	return percent, b.String()
}

func TestDigits(t *testing.T) {
	if percent, out := reads(t, "cnn", "", 60); percent < 80 {
		t.Errorf("it printed %s", out)
	}
	dir := t.TempDir()
	first, _ := reads(t, "mlp", dir, 60)
	second, out := reads(t, "mlp", dir, 150)
	if second < 80 || second < first || strings.Contains(out, "step 50:") {
		t.Errorf("%.1f %%, then it went on with %s", first, out)
	}
}
