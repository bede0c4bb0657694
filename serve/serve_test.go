package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// patience bounds the life of each process of these tests.
const patience = 20 * time.Second

// The names under which this test's binary is a program.
const (
	echoes = "echoes" // has a flag of its own, and code that uses actors
	small  = "small"  // only has an actor
)

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case echoes:
		os.Exit(echoProgram(os.Args[1:]))
	case small:
		Main(troupe.WithActor("echo", newEcho))
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// newEcho returns an actor that answers a text with its task and the text.
func newEcho(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
	return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
		if text, ok := message.(*wrapperspb.StringValue); ok {
			c.Reply(wrapperspb.String(c.Node().Task() + " heard " + text.Value))
		}
	}), nil
}

// echoProgram is a program whose task spawns an actor on another one, asks it, and prints the answer.
func echoProgram(args []string) int {
	var task string
	p := Program{
		Options: []troupe.Option{troupe.WithActor("echo", newEcho)},
		Started: func(ctx context.Context, server *troupe.Server) error {
			switch task {
			case "":
				fmt.Println("up")
				<-ctx.Done()
				fmt.Println("ended")
				return ctx.Err()
			case "stop":
				return server.Stop(ctx)
			case "fail":
				return errors.New("there is nobody to ask")
			}
			answer, err := askEcho(ctx, server, task)
			if err != nil {
				return err
			}
			fmt.Println(answer)
			return nil // and serves on
		},
	}
	cmd := p.Command()
	cmd.Flags().StringVar(&task, "ask", "", "task to ask")
	return Execute(context.Background(), cmd, args)
}

// askEcho waits until a task is up, spawns an actor on it, and asks the actor.
func askEcho(ctx context.Context, server *troupe.Server, task string) (string, error) {
	for t := range server.WatchTasks(ctx) {
		if t.Task != task || t.State != "up" {
			continue
		}
		actor, err := server.Spawn(ctx, "echo", troupe.ActorAt(task, "echo"), nil)
		if err != nil {
			return "", err
		}
		answer, err := troupe.Ask[*wrapperspb.StringValue](ctx, server, actor, wrapperspb.String("hello from "+server.Task()))
		return answer.GetValue(), err
	}
	return "", ctx.Err()
}

// program is this test's binary as a process of one of its programs.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr bytes.Buffer
}

func run(t *testing.T, env []string, name string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &program{t: t, cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Args[0] = name
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Wait() // it was killed
		}
	})
	return p
}

// line returns the next line of the program's output.
func (p *program) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		_ = p.cmd.Wait()
		p.t.Fatalf("the program wrote %q and ended: %s", line, p.stderr.String())
	}
	return strings.TrimSuffix(line, "\n")
}

// ends returns the rest of the program's output, its log, and its exit code.
func (p *program) ends() (code int, out, log string) {
	p.t.Helper()
	rest, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Fatal(err)
	}
	var failed *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &failed) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode(), string(rest), p.stderr.String()
}

// terminated ends the program by a signal, and checks that its code ends before the server, and both without an error.
func (p *program) terminated(want string) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if code, out, log := p.ends(); code != exit.CodeOK || out != want || !strings.Contains(log, "msg=stopping signal=terminated drain=5s") || strings.Contains(log, "WARN") {
		p.t.Errorf("exit code %d, output %q: %s", code, out, log)
	}
}

// TestPrograms starts the two tasks of a cluster as processes of a program, which are declared in each of several ways: an actor that one spawns
// on the other answers it.
func TestPrograms(t *testing.T) {
	const answer = "/job:echo/replica:0/task:0 heard hello from /job:echo/replica:0/task:1"
	for name, declare := range map[string]func(a []string, task int) (env, args []string){
		"flags": func(a []string, task int) (env, args []string) {
			return nil, []string{"-echo=" + strings.Join(a, ","), fmt.Sprintf("--task_index=%d", task)}
		},
		"environment": func(a []string, task int) (env, args []string) {
			config, err := json.Marshal(map[string]any{"cluster": map[string][]string{"echo": a}, "task": map[string]any{"type": "echo", "index": task}})
			if err != nil {
				t.Fatal(err)
			}
			return []string{"TF_CONFIG=" + string(config)}, nil
		},
		"join": func(a []string, task int) (env, args []string) {
			if task == 1 {
				return nil, []string{"--join", a[0]}
			}
			return nil, []string{"--cluster=echo=" + strings.Join(a, ","), "--task=0"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addresses := spectest.Addresses(t, 2)
			env, args := declare(addresses, 0)
			first := run(t, env, echoes, args...)
			if got := first.line(); got != "up" { // before another one joins it
				t.Fatalf("printed %q", got)
			}
			env, args = declare(addresses, 1)
			second := run(t, env, echoes, append(args, "--ask=/job:echo/replica:0/task:0")...)
			if got := second.line(); got != answer {
				t.Errorf("printed %q", got)
			}
			second.terminated("")
			first.terminated("ended\n")
		})
	}
}

// TestExitCodes checks the documented exit codes, and that an error is one line with the program's name.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--w=localhost:0", "--ask=stop"}, exit.CodeOK, ""},
		{[]string{"--w=localhost:0", "--check"}, exit.CodeOK, ""},
		{[]string{"--w=localhost:0", "--check-strict"}, exit.CodeOK, ""},
		{[]string{"--w=192.0.2.1:2222", "--check"}, exit.CodeOK, ""},
		{[]string{"--w=192.0.2.1:2222", "--check-strict"}, exit.CodeRefused, "echoes: the check is strict, and there were warnings"},
		{[]string{"--w=192.0.2.1:2222", "--check-strict", "--log-level=error"}, exit.CodeRefused, "echoes: the check is strict, and there were warnings"},
		{[]string{"--w=localhost:0", "--ask=fail"}, exit.CodeFailed, "echoes: there is nobody to ask\n"},
		{nil, exit.CodeUsage, "echoes: no cluster is declared: give --cluster,"},
		{[]string{"--job_=1", "--w=localhost:0"}, exit.CodeUsage, "echoes: unknown flag: --job_ (and it does not declare a job"},
		{[]string{"--w=localhost:0", "--task=one"}, exit.CodeUsage, `echoes: invalid argument "one" for "--task" flag`},
		{[]string{"--w=localhost:0", "stray"}, exit.CodeUsage, `echoes: unexpected argument "stray"`},
		{[]string{"--w=localhost:0", "--ask"}, exit.CodeUsage, "echoes: flag needs an argument: --ask"},
		{[]string{"--w=" + taken.Addr().String()}, exit.CodeRefused, "echoes: Could not start gRPC server"},
		{[]string{"--w=localhost:0", "--job=ps"}, exit.CodeRefused, "echoes: Job \"ps\""},
		{[]string{"--join", spectest.Address(t)}, exit.CodeUnreachable, "echoes: "},
	} {
		p := run(t, nil, echoes, c.args...)
		code, _, log := p.ends()
		if code != c.code || !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(c.want)).MatchString(log) {
			t.Errorf("%q: exit code %d, not %d with %q: %s", c.args, code, c.code, c.want, log)
		}
		if hint := strings.Contains(log, "Run 'echoes --help' for its flags and an example.\n"); hint != (c.code == exit.CodeUsage) {
			t.Errorf("%q: the help is mentioned: %v", c.args, hint)
		}
	}
}

// TestHelp checks that the help has the server's flags, the program's own, and the program's name.
func TestHelp(t *testing.T) {
	code, out, log := run(t, nil, echoes, "-h").ends()
	for _, want := range []string{"\n      --ask string ", "\n      --join strings ", "\n      --tls-cert ", "\n      --drain duration ", "\n  echoes [flags]\n", "  echoes --join 10.0.0.1:2222 --job worker\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the help", want)
		}
	}
	if code != exit.CodeOK || !strings.HasPrefix(out, "Echoes runs one task of a cluster until SIGTERM") || strings.Contains(out, declaredJob) || strings.Contains(out, "troupe serve") {
		t.Errorf("exit code %d: %s%s", code, out, log)
	}
}

// TestMainOfOneLine runs a program whose main function only calls Main.
func TestMainOfOneLine(t *testing.T) {
	if code, out, log := run(t, nil, small, "--echo=localhost:0", "--check").ends(); code != exit.CodeOK || out != "/job:echo/replica:0/task:0 (localhost:0) of echo=localhost:0\n" {
		t.Errorf("exit code %d: %s%s", code, out, log)
	}
	if code, _, log := run(t, nil, small, "--drain=soon").ends(); code != exit.CodeUsage || !strings.HasPrefix(log, "small: ") {
		t.Errorf("exit code %d: %s", code, log)
	}
}

// words returns a command with a Program and another command, which fails.
func words(p Program) *cobra.Command {
	root := &cobra.Command{Use: "words"}
	root.PersistentFlags().String("language", "", "of the words")
	root.AddCommand(p.Command(), &cobra.Command{Use: "count", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return errors.New("there are none") }})
	return root
}

// TestTree runs a server as a command among others of a program.
func TestTree(t *testing.T) {
	addresses := spectest.Addresses(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	task := ""
	p := Program{Name: "words serve", Options: []troupe.Option{troupe.WithTask(0), troupe.WithJob("w")}, Started: func(ctx context.Context, server *troupe.Server) error {
		task = server.Task()
		cancel()
		<-ctx.Done()
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"serve", "-w=" + strings.Join(addresses, ","), "-language", "en", "-task", "1"}, exit.CodeOK, ""},
		{[]string{"serve", "--wo"}, exit.CodeUsage, "words serve: unknown flag: --wo"},
		{[]string{"serve", "--wo=1", "--help"}, exit.CodeUsage, "words serve: unknown flag: --wo"},
		{[]string{"count"}, exit.CodeFailed, "words count: there are none\n"},
		{[]string{"count", "-w=h:1"}, exit.CodeUsage, "words count: unknown shorthand flag"},
		{[]string{"guess"}, exit.CodeUsage, `words: unknown command "guess"`},
		{nil, exit.CodeOK, ""},
		{[]string{"__complete", "serve", "--lang"}, exit.CodeOK, ""},
	} {
		var out, errs bytes.Buffer
		root := words(p)
		root.SetOut(&out)
		root.SetErr(&errs)
		if code := Execute(ctx, root, c.args); code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%q: exit code %d, not %d with %q: %s%s", c.args, code, c.code, c.want, out.String(), errs.String())
		}
	}
	if task != "/job:w/replica:0/task:1" {
		t.Errorf("the flag does not override the option: %q", task)
	}
}

// TestCodeThatStays checks that a server ends although the program's own code does not return.
func TestCodeThatStays(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	let, returned := make(chan struct{}), make(chan struct{})
	cmd := Program{Name: "stays", Started: func(context.Context, *troupe.Server) error {
		defer close(returned)
		cancel()
		<-let
		return nil
	}}.Command()
	var log bytes.Buffer
	cmd.SetErr(&log)
	if code := Execute(ctx, cmd, []string{"--w=localhost:0", "--drain=1ms"}); code != exit.CodeOK || !strings.Contains(log.String(), "the program's own code has not returned") {
		t.Errorf("exit code %d: %s", code, log.String())
	}
	close(let)
	<-returned
}

// TestCommandsOfCobra checks that the arguments of commands that cobra adds are left alone.
func TestCommandsOfCobra(t *testing.T) {
	for line, want := range map[string]string{"__complete --joi": "--join", "completion bash --no-descriptions": "bash completion"} {
		var out bytes.Buffer
		cmd := Program{Name: "words"}.Command()
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		if code := Execute(t.Context(), cmd, strings.Fields(line)); code != exit.CodeOK || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d: %s", line, code, out.String())
		}
	}
}
