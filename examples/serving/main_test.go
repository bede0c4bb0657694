package main

import (
	"strings"
	"testing"
)

func TestServing(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, "model", ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`200 {"Species":["setosa","virginica"]`, `400 Input "sizes"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it printed %s, without %s", out.String(), want)
		}
	}
}
