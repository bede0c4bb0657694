package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/exit"
)

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// keysOf calls found with each key of a decoded JSON value.
func keysOf(path string, value any, found func(path, key string)) {
	switch v := value.(type) {
	case map[string]any:
		for key, of := range v {
			found(path, key)
			keysOf(path+"."+key, of, found)
		}
	case []any:
		for i, of := range v {
			keysOf(fmt.Sprintf("%s[%d]", path, i), of, found)
		}
	}
}

// TestTokenThatIsNotPrinted checks that a token, or its line for the server, that cannot be printed is an error: it cannot be had again.
func TestTokenThatIsNotPrinted(t *testing.T) {
	full := fullWriter{}
	if code := run(t.Context(), []string{"token", "new", "alice"}, os.Stdin, full, io.Discard); code != exit.CodeFailed {
		t.Errorf("without standard output, the exit code is %d", code)
	}
	if code := run(t.Context(), []string{"token", "new", "alice"}, os.Stdin, io.Discard, full); code != exit.CodeFailed {
		t.Errorf("without standard error, the exit code is %d", code)
	}
}

// fullWriter is the file of a full disk.
type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestJSONKeys runs every command that has --json, and checks that all keys are in snake_case.
func TestJSONKeys(t *testing.T) {
	server, err := troupe.NewLocalServer(t.Context(), troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop(t.Context())
	ran := 0
	for _, cmd := range newRoot(os.Stdin).Commands() {
		if cmd.Flags().Lookup("json") == nil {
			continue
		}
		ran++
		args := []string{cmd.Name(), "--json", server.Target()}
		if cmd.Name() == "version" {
			args = args[:2]
		}
		var out, log bytes.Buffer
		if code := run(t.Context(), args, os.Stdin, &out, &log); code != exit.CodeOK {
			t.Errorf("%s ended with %d: %s", cmd.Name(), code, log.String())
			continue
		}
		var value any
		d := json.NewDecoder(&out)
		if err := d.Decode(&value); err != nil {
			t.Errorf("%s: %v", cmd.Name(), err)
			continue
		}
		if err := d.Decode(&struct{}{}); err != io.EOF {
			t.Errorf("%s prints more than one value: %v", cmd.Name(), err)
		}
		if value == nil {
			t.Errorf("%s prints null", cmd.Name())
		}
		keys := map[string]bool{}
		keysOf(cmd.Name(), value, func(path, key string) {
			keys[key] = true
			if !snakeCase.MatchString(key) {
				t.Errorf("%s has the key %q, which is not in snake_case", path, key)
			}
		})
		if name := cmd.Name(); (name == "status" || name == "version") && !keys["version"] {
			t.Errorf("%s lacks the version: %v", name, value)
		}
		if len(keys) == 0 && cmd.Name() != "why" { // no step is slow
			t.Errorf("%s printed no keys: %v", cmd.Name(), value)
		}
		if name := cmd.Name(); (name == "devices" || name == "status") && !keys["memory_limit"] {
			t.Errorf("%s lacks devices: %v", name, value)
		}
	}
	if ran < 2 {
		t.Errorf("%d commands have --json", ran)
	}
}
