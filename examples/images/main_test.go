package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// interpreter returns a program that stands in for Python: script determines how it exits.
func interpreter(t *testing.T, script string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("it takes a shell")
	}
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNeedsTensorFlow: without TensorFlow, the program says in one line what to do.
func TestNeedsTensorFlow(t *testing.T) {
	for name, c := range map[string]struct{ python, want string }{
		"no interpreter":  {filepath.Join(t.TempDir(), "absent"), "-python"},
		"no TensorFlow":   {interpreter(t, `[ -z "$2" ]`), "pip install tensorflow-cpu"},
		"with TensorFlow": {interpreter(t, "exit 0"), ""},
		"not even Python": {interpreter(t, "exit 7"), "does not run"},
	} {
		err := needTensorFlow(t.Context(), c.python)
		switch {
		case c.want == "" && err != nil, c.want != "" && err == nil:
			t.Errorf("%s: %v", name, err)
		case err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v", name, err)
		}
	}
}
