package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe/internal/command/exit"
)

// limits says of a number's flag which values it has; zero and tiny tell whether 0 and the smallest positive number are among them.
type limits struct {
	text       string
	zero, tiny bool
}

// limitsOfFlags are those of all flags that are numbers, by the flag, or by the command and the flag where commands differ.
var limitsOfFlags = map[string]limits{
	"ca-days":              {"from 1 to 36500", false, true},
	"client-memory":        {"0, or from 1MiB to 1024TiB", true, false},
	"data-compaction-rate": {"0, or from 1MiB to 1024TiB", true, false},
	"data-limit":           {"0, or from 64MiB to 1024TiB", true, false},
	"days":                 {"from 1 to 36500", false, true},
	"drain":                {"from 0s to 8760h", true, true},
	"gpu-memory-fraction":  {"0, or from 0.001 to 1", true, false},
	"gpus":                 {"from -1 to 1024", true, true},
	"http-queues":          {"from 0 to 1000000", true, true},
	"interval":             {"from 100ms to 8760h", false, false},
	"lease":                {"from 1ms to 8760h", false, false},
	"limit":                {"from 0 to 16384", true, true},
	"longer-than":          {"from 0s to 8760h", true, true},
	"max-events":           {"from 0 to 1048576", true, true},
	"memory-limit":         {"0, or from 1MiB to 1024TiB", true, false},
	"port":                 {"from 0 to 65535", true, true},
	"process-memory":       {"0, or from 16MiB to 1024TiB", true, false},
	"seconds":              {"from 0.001 to 60", false, false},
	"session-memory":       {"0, or from 1MiB to 1024TiB", true, false},
	"slurm-port":           {"from 1 to 65535", false, true},
	"startup-timeout":      {"from 1ms to 8760h", false, false},
	"step":                 {"from 0 to 18446744073709551615", true, true},
	"step-memory":          {"0, or from 1MiB to 1024TiB", true, false},
	"steps":                {"from 0 to 10000", true, true},
	"task":                 {"from 0 to 2147483647", true, true},
	"time":                 {"from 1ms to 24h", false, false},
	"timeout":              {"from 1ms to 8760h", false, false},
	"token new days":       {"from 0 to 36500", true, true},
	"within":               {"from 0s to 1h", true, true},
}

// Every flag that is a number refuses, on the command line, what nothing can work with, before anything is done: the error names the flag, the
// value and the limits.
func TestNumbersHaveLimits(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	t.Chdir(t.TempDir())
	unused := map[string]bool{}
	for name := range limitsOfFlags {
		unused[name] = true
	}
	// By the kind of the number: nothing, the smallest one, a negative one that means nothing, and one beyond all limits.
	values := map[string][4]string{"duration": {"0s", "1ns", "-7s", "2562047h"}, "int": {"0", "1", "-7", "9223372036854775807"}, "uint": {"0", "1", "-7", "99999999999999999999"},
		"float": {"0", "1e-9", "-7", "1e300"}, "bytes": {"0", "1", "-7", "4e18"}}
	seen := 0
	for _, cmd := range leaves(newRoot(os.Stdin)) {
		words := strings.Fields(cmd.CommandPath())[1:]
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			tried, isNumber := values[kind]
			if !isNumber {
				if !slices.Contains([]string{"bool", "string", "stringSlice", "stringArray", "cluster|task", "algorithm"}, kind) {
					t.Errorf("%s: nothing tells which values the flag --%s has: its type is %s", cmd.CommandPath(), f.Name, kind)
				}
				return
			}
			seen++
			key := strings.Join(words, " ") + " " + f.Name
			want, ok := limitsOfFlags[key]
			if !ok {
				key = f.Name
				want, ok = limitsOfFlags[key]
			}
			if !ok {
				t.Errorf("%s: the flag --%s is not in the table of limits", cmd.CommandPath(), f.Name)
				return
			}
			delete(unused, key)
			for i, value := range tried {
				if i == 0 && want.zero || i == 1 && want.tiny {
					if err := cmd.Flags().Set(f.Name, value); err != nil {
						t.Errorf("%s --%s %s: %v", cmd.CommandPath(), f.Name, value, err)
					}
					continue
				}
				refusesNumber(t, cmd, f.Name, value, want.text)
			}
			if err := f.Value.Set(f.DefValue); err != nil {
				t.Errorf("%s: the default of --%s is not one of its values: %v", cmd.CommandPath(), f.Name, err)
			}
		})
	}
	for name := range unused {
		t.Errorf("the table of limits has %s, which is not the flag of a command", name)
	}
	if seen < 60 {
		t.Errorf("%d flags are numbers", seen)
	}
}

func refusesNumber(t *testing.T, cmd *cobra.Command, flag, value, limits string) {
	t.Helper()
	args := append(strings.Fields(cmd.CommandPath())[1:], "--"+flag+"="+value)
	var out bytes.Buffer
	code := run(t.Context(), args, os.Stdin, &out, &out)
	if code != exit.CodeUsage || !strings.Contains(out.String(), `"`+value+`" for "--`+flag+`" flag`) || !strings.Contains(out.String(), "it is "+limits+"\n") {
		t.Errorf("troupe %s: exit code %d: %s", strings.Join(args, " "), code, out.String())
	}
}
