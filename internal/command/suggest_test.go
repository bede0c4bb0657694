package command

import "testing"

func TestSuggestions(t *testing.T) {
	names := []string{"cancel", "context", "containers", "status", "steps", "top", "up", "why", "--tasks"}
	for typed, want := range map[string]string{
		"staus":      "; did you mean status?",
		"stauts":     "; did you mean status?",
		"stat":       "; did you mean status?",
		"con":        "; did you mean containers or context?",
		"contianers": "; did you mean containers?",
		"tpo":        "; did you mean top?",
		"cancle":     "; did you mean cancel?",
		"upp":        "; did you mean up?",
		"serve":      "",
		"s":          "",
		"nope":       "",
		"":           "",
	} {
		if got := didYouMean(typed, "", names); got != want {
			t.Errorf("%q: %q, not %q", typed, got, want)
		}
	}
	if got := didYouMean("task", "--", []string{"tasks", "host"}); got != "; did you mean --tasks?" {
		t.Errorf("%q", got)
	}
}
