package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/serve/internal/owner"
)

// parent is the program that embeds the task: its input to the task, and its end of the output.
type parent struct {
	in    io.Reader // nil if it sends nothing
	out   io.Writer
	owner *owner.Owner // nil if it has no address of its own
}

// connect connects to the program that embeds the task.
func (f *serverFlags) connect(ctx context.Context, stdin io.Reader, stdout io.Writer) (*parent, error) {
	if f.parent == "" {
		p := &parent{out: stdout}
		if f.serverDef != "" {
			keepFromGraphs(stdout)
		}
		if listens(stdin) {
			p.in = stdin
		}
		return p, nil
	}
	if f.serverDef == "" {
		return nil, errors.New("--parent is for a task that another program embeds with --server-def")
	}
	network, address, err := owner.ParseAddress(f.parent)
	if err != nil {
		return nil, fmt.Errorf("--parent: %w", err)
	}
	token := os.Getenv(owner.TokenVariable)
	os.Unsetenv(owner.TokenVariable) // only this process may use it
	o, err := owner.Connect(ctx, network, address, token)
	if err != nil {
		return nil, err
	}
	return &parent{in: o.Control, out: o.Control, owner: o}, nil
}

// keepFromGraphs reserves standard output for the program. Output of ops, such as tf.print with output_stream=sys.stdout, could be mistaken for
// the server's own: it goes to standard error, with the log.
func keepFromGraphs(stdout io.Writer) {
	if stdout == os.Stdout {
		os.Stdout = os.Stderr
	}
}

// options returns the options that the program gives the server.
func (p *parent) options() []troupe.Option {
	if p.owner == nil {
		return nil
	}
	return []troupe.Option{troupe.WithFunctions(p.owner.Call)}
}

// forget removes the leftovers of a killed program.
func (p *parent) forget() {
	if p.owner != nil {
		p.owner.Forget()
	}
}

// announceError reports to the program that embeds the server, in one line, why it does not start.
func announceError(w io.Writer, err error) {
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	plain.Printf(w, "ERROR %d %s\n", status.CodeOf(err), text)
}

// listens reports whether a program can be at the other end of standard input: a terminal is for
// people, and /dev/null is at its end from the start.
func listens(stdin io.Reader) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return true
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}

// obey executes the embedding program's commands, one on each line, until the end of its input.
func obey(stdin io.Reader, stdout io.Writer, drain time.Duration, stop func(drain time.Duration), ended func()) {
	defer ended()
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		command, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		switch {
		case command == "start" && rest == "":
			plain.Println(stdout, "STARTED")
		case command == "stop":
			within, err := drainTime(rest, drain)
			if err != nil {
				announceError(stdout, err)
				continue
			}
			stop(within)
		default:
			announceError(stdout, status.InvalidArgumentf("the commands are start, stop and stop DURATION, not %q", lines.Text()))
		}
	}
}

// drainTime parses how long running steps may continue; the default is the flags'.
func drainTime(text string, otherwise time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, status.InvalidArgumentf("stop takes a duration, such as 5s, not %q", text)
	}
	return d, nil
}
