package simd

import "testing"

// eachLevel runs f with every implementation that this machine has, fastest first. Tests that use it must not be parallel.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	before := active
	defer func() { active = before }()
	for _, set := range available() {
		active = set
		t.Run(set.name, f)
	}
}

func TestLevelIsTheFastest(t *testing.T) {
	if got, want := Level(), available()[0].name; got != want {
		t.Errorf("Level() = %q, the first available is %q", got, want)
	}
	for _, set := range available() {
		switch set.name {
		case "avx512", "avx2", "neon", "go":
		default:
			t.Errorf("unknown level %q", set.name)
		}
	}
}
