package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestLinear(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, ""); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var w, b float64
	if _, err := fmt.Sscanf(lines[len(lines)-1], "y = %f x + %f", &w, &b); err != nil || math.Abs(w-3) > 0.1 || math.Abs(b-2) > 0.1 ||
		!strings.HasPrefix(lines[1], "worker 1: 200 steps") {
		t.Errorf("it printed %s", out.String())
	}
}
