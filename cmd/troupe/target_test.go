package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// operandExamples are arguments for the operands that usage lines name.
var operandExamples = map[string]string{"TASK": "worker:1", "STEP": "123", "CONTAINER": "shared", "ACTOR": "worker:1/actor:votes", "TOPIC": "news", "JSON": `{"@type": "google.protobuf.Empty"}`}

// neededFlags are the flags without which a command calls no server.
var neededFlags = map[string][]string{"drain": {"--yes"}, "reset": {"--yes"}, "top": {"--once"}, "wait": {"--ready", "--timeout=300ms"}}

// operandLists returns the arguments after the target that a usage line allows, with and without each optional operand.
func operandLists(t *testing.T, cmd *cobra.Command) [][]string {
	t.Helper()
	_, rest, _ := strings.Cut(cmd.Use, "TARGET")
	lists := [][]string{nil}
	for _, operand := range strings.Fields(strings.TrimLeft(strings.TrimPrefix(rest, "[,TARGET…]"), "]")) {
		name := strings.Trim(operand, "[]")
		last := lists[len(lists)-1]
		switch example := operandExamples[name]; {
		case name == "…":
			lists = append(lists, append(last[:len(last):len(last)], last[len(last)-1]))
		case example == "":
			t.Fatalf("%s: there is no example of the operand %s", cmd.Use, name)
		case strings.HasPrefix(operand, "["):
			lists = append(lists, append(last[:len(last):len(last)], example))
		default:
			lists = [][]string{append(last, example)}
		}
	}
	return lists
}

// targetCommands returns the commands that take a target, by their names.
func targetCommands(t *testing.T) map[string]*cobra.Command {
	t.Helper()
	all := map[string]*cobra.Command{}
	for _, cmd := range leaves(newRoot(os.Stdin)) {
		words := strings.Fields(cmd.CommandPath())[1:]
		if len(words) == 1 && strings.Contains(cmd.Use, "TARGET") { // troupe context set has a flag of that name
			all[words[0]] = cmd
		}
	}
	if len(all) < 15 {
		t.Errorf("%d commands take a target", len(all))
	}
	return all
}

// Every command that takes a target finds it on the command line, in the context that --context names, in the environment, and in the
// chosen context, in this order, with all operands that its usage line allows. Nothing listens at the targets: errors name them.
func TestTargets(t *testing.T) {
	const given, named, environment, chosen = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	troupe := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := run(t.Context(), args, os.Stdin, &out, &out)
		return code, out.String()
	}
	for name, target := range map[string]string{"other": named, "chosen": chosen} {
		if code, out := troupe("context", "set", name, "--target", target); code != exit.CodeOK {
			t.Fatal(out)
		}
	}
	if code, out := troupe("context", "use", "chosen"); code != exit.CodeOK {
		t.Fatal(out)
	}
	for name, cmd := range targetCommands(t) {
		for _, operands := range operandLists(t, cmd) {
			for _, c := range []struct {
				from, want string
				before     []string
				env        string
			}{
				{"the command line", given, []string{given}, environment},
				{"--context", named, []string{"--context=other"}, environment},
				{"the environment", environment, nil, environment},
				{"the chosen context", chosen, nil, ""},
			} {
				t.Setenv(targetVariable, c.env)
				args := append(append(append([]string{name}, c.before...), operands...), neededFlags[name]...)
				code, out := troupe(args...)
				if code == exit.CodeOK || code == exit.CodeUsage || !strings.Contains(out, c.want) {
					t.Errorf("troupe %s, with the target from %s: exit code %d, and nothing says %s:\n%s", strings.Join(args, " "), c.from, code, c.want, out)
				}
			}
		}
	}
}

// Every command that takes a target says what is wrong if a task is named in its place, and what to write instead.
func TestTaskInPlaceOfATarget(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	t.Setenv(targetVariable, "")
	for name, cmd := range targetCommands(t) {
		for _, operands := range operandLists(t, cmd) {
			for _, task := range []string{"worker:0", "/job:worker/task:3", "worker:0,ps:0"} {
				args := append(append([]string{name, task}, operands...), neededFlags[name]...)
				var out bytes.Buffer
				code := run(t.Context(), args, os.Stdin, &out, &out)
				first, _, _ := strings.Cut(task, ",")
				if code != exit.CodeUsage || !strings.Contains(out.String(), first+" is the name of a task, and a target is the address of a server: troupe "+name+" HOST:PORT") {
					t.Errorf("%v: exit code %d: %s", args, code, out.String())
				}
			}
		}
		unreachable := exit.With(exit.CodeUnreachable, errors.New("no such host"))
		for target, want := range map[string]bool{"worker:1": true, "10.0.0.2:2222": false, "worker:2222": false, "localhost:1": false, "grpc://worker:1": false} {
			err := perhapsTask(cmd, target, unreachable)
			if strings.Contains(err.Error(), "if worker:1 is meant as the name of a task") != want || exit.CodeOf(err, exit.CodeFailed) != exit.CodeUnreachable {
				t.Errorf("%s of %s that does not answer: %v", name, target, err)
			}
			if err := noTask(cmd, target); err != nil {
				t.Errorf("%s of %s: %v", name, target, err)
			}
		}
	}
}

// Where the operand of a command may be missing, a host without its port is no target, and the error says so.
func TestHostWithoutAPort(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	t.Setenv(targetVariable, "")
	commands := 0
	for name, cmd := range targetCommands(t) {
		if o, _ := operandsOf(cmd); o.least > 0 || o.most == 0 {
			continue
		}
		commands++
		var out bytes.Buffer
		code := run(t.Context(), []string{name, "ps-0.example"}, os.Stdin, &out, &out)
		if code != exit.CodeUsage || !strings.Contains(out.String(), `no target is given: "ps-0.example" has no port`) || !strings.Contains(out.String(), targetVariable) {
			t.Errorf("troupe %s: exit code %d: %s", name, code, out.String())
		}
	}
	if commands < 2 {
		t.Errorf("%d commands have operands that may be missing", commands)
	}
}

// The error of a command without a certificate names the flags to set, whatever it requests from a server that requires
// one.
func TestNamesFlagsOfIdentity(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	dir := filepath.Join(t.TempDir(), "certs")
	made := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), args, os.Stdin, &out, &out); code != exit.CodeOK {
			t.Fatal(out.String())
		}
	}
	at := spectest.Addresses(t, 1)[0]
	made("certs", "init", "--cluster", "ps="+at, "--out", dir)
	k, err := access.LoadCredentials(access.CredentialConfig{CredentialFiles: access.CredentialFiles{
		Cert: filepath.Join(dir, "ps-0.pem"), Key: filepath.Join(dir, "ps-0-key.pem"), CA: filepath.Join(dir, "ca.pem")}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	server, err := troupe.NewServer(t.Context(), troupe.ClusterSpec{"ps": {at}}, troupe.WithCredentials(k))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop(t.Context()) //nolint:errcheck // the process ends
	for name, cmd := range targetCommands(t) {
		lists := operandLists(t, cmd)
		args := append(append([]string{name, at}, lists[len(lists)-1]...), neededFlags[name]...)
		var out bytes.Buffer
		code := run(t.Context(), args, os.Stdin, &out, &out)
		if code == exit.CodeOK || !strings.Contains(out.String(), "--tls-cert, --tls-key") || !strings.Contains(out.String(), "--token-file") {
			t.Errorf("%v: exit code %d: %s", args, code, out.String())
		}
	}
}

// Status warns of a task's certificate that expires soon.
func TestStatusOfACertificateThatExpires(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	dir, until := t.TempDir(), time.Now().Add(2*time.Minute)
	authority, ca, err := access.NewAuthority("test", until.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(access.Request{Name: access.TaskName("ps", 0), Hosts: []string{"127.0.0.1"}, Until: until})
	if err != nil {
		t.Fatal(err)
	}
	files := access.CredentialFiles{Cert: filepath.Join(dir, "ps.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "ca.pem")}
	for path, b := range map[string][]byte{files.Cert: pair.Cert, files.Key: pair.Key, files.CA: ca.Cert} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k, err := access.LoadCredentials(access.CredentialConfig{CredentialFiles: files, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	at := spectest.Addresses(t, 1)[0]
	server, err := troupe.NewServer(t.Context(), troupe.ClusterSpec{"ps": {at}}, troupe.WithCredentials(k), troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop(t.Context()) //nolint:errcheck // the process ends
	var out bytes.Buffer
	code := run(t.Context(), []string{"status", at, "--tls-cert", files.Cert, "--tls-key", files.Key, "--tls-ca", files.CA}, os.Stdin, &out, &out)
	if code != exit.CodeOK || !strings.Contains(out.String(), "\nwarning: /job:ps/replica:0/task:0: its certificate expires in ") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

// No command says "1 arguments", whatever its arguments are.
func TestArgumentCounts(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	t.Setenv(targetVariable, "")
	counted := 0
	for _, cmd := range leaves(newRoot(os.Stdin)) {
		for _, operands := range [][]string{nil, {"a"}, {"a", "b"}, {"a", "b", "c"}} {
			if cmd.Args == nil || cmd.Args(cmd, operands) == nil {
				continue
			}
			text := cmd.Args(cmd, operands).Error()
			if strings.Contains(text, "argument is given") || strings.Contains(text, "arguments are given") {
				counted++
			}
			if strings.Contains(text, "1 arguments") {
				t.Errorf("%s %v: %s", cmd.CommandPath(), operands, text)
			}
		}
	}
	if counted < 30 {
		t.Errorf("%d texts count arguments", counted)
	}
}

// Each command that lists something of a cluster says so if there is nothing: heads alone, or no output at all, could also be a fault.
func TestEmptyLists(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	server, err := troupe.NewLocalServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop(t.Context()) //nolint:errcheck // the process ends
	heads := regexp.MustCompile(`^[A-Z/ ?]*$`)
	lists := 0
	for _, cmd := range leaves(newRoot(os.Stdin)) {
		args := strings.Fields(cmd.CommandPath())[1:]
		o, takesTarget := operandsOf(cmd)
		switch {
		case cmd.Flags().Lookup("json") == nil || slices.Contains([]string{"bench", "doctor"}, args[0]):
			continue
		case takesTarget && o.least == 0:
			args = append(args, server.Target())
		case args[len(args)-1] != "list":
			continue
		}
		lists++
		var out bytes.Buffer
		if code := run(t.Context(), args, os.Stdin, &out, &out); code != exit.CodeOK {
			t.Errorf("%v: exit code %d: %s", args, code, out.String())
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if heads.MatchString(lines[len(lines)-1]) {
			t.Errorf("%v shows nothing but %q", args, out.String())
		}
	}
	if lists < 10 {
		t.Errorf("there are %d commands with lists", lists)
	}
}
