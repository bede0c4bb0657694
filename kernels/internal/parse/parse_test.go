package parse

import (
	"math"
	"testing"
)

// TestFloat checks which texts are numbers, and of which values.
func TestFloat(t *testing.T) {
	for text, want := range map[string]float64{
		"1.5": 1.5, "-2e3": -2000, "0x10": 16, "-0X1F": -31, "0x1p4": 16, "inf": math.Inf(1), "-Infinity": math.Inf(-1), "1e400": math.Inf(1), "-1e400": math.Inf(-1), "1e-400": 0,
	} {
		if got, err := Float(text, 64); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	if got, err := Float("1e39", 32); err != nil || !math.IsInf(got, 1) {
		t.Errorf("1e39 is %v, %v as a float32", got, err)
	}
	for _, text := range []string{"nan", "-NaN", "+nan", "nan()", "nan(0x1_f)"} {
		if got, err := Float(text, 64); err != nil || !math.IsNaN(got) {
			t.Errorf("%q is %v, %v; want NaN", text, got, err)
		}
	}
	for _, text := range []string{"nan(", "nan(-)", "nan1", "--nan", "", "x", "1_0", "0x_1", "1 2", "0x", "1e"} {
		if got, err := Float(text, 64); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
