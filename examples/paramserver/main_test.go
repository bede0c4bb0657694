package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestParamserver(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, false); err != nil {
		t.Fatal(err)
	}
	var before, after float64
	_, err := fmt.Sscanf(out.String(), "before the training x = 2 gives %f\nafter it x = 2 gives %f\n", &before, &after)
	if err != nil || before != 0 || math.Abs(after-6) > 0.5 {
		t.Errorf("it printed %s", out.String())
	}
}
