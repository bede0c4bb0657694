package flagset

import (
	"maps"
	"strings"
	"testing"
)

func TestTasks(t *testing.T) {
	jobs, err := ParseTasks("ps=1, worker=2")
	if err != nil || !maps.Equal(jobs, map[string]int{"ps": 1, "worker": 2}) {
		t.Errorf("%v, %v", jobs, err)
	}
	for text, want := range map[string]string{
		"":          "does not say how many tasks",
		"ps":        "does not say how many tasks",
		"ps=":       "does not say how many tasks",
		"ps=0":      `"ps=0": a job has at least one task`,
		"ps=-1":     "at least one",
		"ps=1,,w=1": `"" does not say`,
		"ps=1,ps=2": "twice",
	} {
		if jobs, err := ParseTasks(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", text, jobs, err)
		}
	}
}
