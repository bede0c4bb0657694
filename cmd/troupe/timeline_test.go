package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestOutputFile checks that a file for what takes long to make is as it was if nothing could be made.
func TestOutputFile(t *testing.T) {
	dir := t.TempDir()
	was := filepath.Join(dir, "was")
	if err := os.WriteFile(was, []byte("an earlier one"), 0o600); err != nil {
		t.Fatal(err)
	}
	lost := errors.New("lost")
	for name, c := range map[string]struct {
		path  string
		made  error
		after string // what the file has then; "" if it does not exist
	}{
		"new":               {filepath.Join(dir, "new"), nil, "made"},
		"new, and failed":   {filepath.Join(dir, "failed"), lost, ""},
		"there, and failed": {was, lost, "an earlier one"},
	} {
		f, finish, err := outputFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if c.made == nil {
			if err := truncated(f); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("made"); err != nil {
				t.Fatal(err)
			}
		}
		if err := finish(c.made); !errors.Is(err, c.made) || (err == nil) != (c.made == nil) {
			t.Errorf("%s: %v", name, err)
		}
		content, err := os.ReadFile(c.path)
		if string(content) != c.after || (err != nil) != (c.after == "") {
			t.Errorf("%s: the file has %q, %v", name, content, err)
		}
	}
	f, finish, err := outputFile(was)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(truncated(f), finish(nil)); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(was); err != nil || len(content) != 0 {
		t.Errorf("an emptied file has %q, %v", content, err)
	}
}
