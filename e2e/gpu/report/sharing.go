package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

// load waits for its standard input, multiplies matrices for some seconds on a server with a part of the card, and prints how many steps it
// did. The variant faulty breaks its context halfway and goes on with a new session.
func load(ctx context.Context, m *machine) (err error) {
	b, err := m.serve(ctx, troupe.WithGPUOptions(&corepb.GPUOptions{PerProcessGpuMemoryFraction: 0.3}))
	if err != nil {
		return err
	}
	defer b.end(&err)
	n, length := int32(pick(m, 2048, 16)), pick(m, 16, 2)
	begin := func() (run *troupe.Callable, end func(*error), err error) {
		root := op.NewScope()
		s := root.WithDevice(onGPU)
		w := random(s, tensor.Float32, 0.03, n, n)
		y := w
		for range length {
			y = op.MatMul(s, y, w)
		}
		session, end, err := b.session(ctx, root)
		if err != nil {
			return nil, nil, err
		}
		if run, err = session.Prepare(ctx, nil, y.Op); err != nil {
			end(&err)
		}
		return run, end, err
	}
	run, end, err := begin()
	if err != nil {
		return err
	}
	if err := release(run.Run(ctx)); err != nil {
		return errors.Join(err, closeAfter(end))
	}
	m.text("ready")
	if m.written != nil {
		return m.written
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	seconds := pick(m, 3*time.Second, 200*time.Millisecond)
	begun, steps, faults := time.Now(), 0, 0
	for time.Since(begun) < seconds {
		if m.variant == faulty && faults == 0 && time.Since(begun) > seconds/2 {
			faults++
			if err := m.breakContext(); err != nil {
				return err
			}
		}
		err := release(run.Run(ctx))
		if err != nil && faults > 0 {
			_ = closeAfter(end) // the variables of the session are gone
			if _, err = back(ctx, func() (err error) {
				run, end, err = begin()
				return err
			}); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return errors.Join(err, closeAfter(end))
		}
		steps++
	}
	m.row(fmt.Sprint(float64(steps) / time.Since(begun).Seconds()))
	return closeAfter(end)
}

// faulty is the variant of load that breaks its context.
const faulty = "faulty"

func closeAfter(end func(*error)) (err error) {
	end(&err)
	return err
}

// breakContext breaks the context with a device beside the server.
func (m *machine) breakContext() error {
	d, err := m.device("faulty")
	if err != nil {
		return err
	}
	if fault(d) == nil {
		err = errors.New("a kernel wrote to a wild address, and its step did not fail")
	}
	return errors.Join(err, d.Close())
}

// sharing runs a load alone, two concurrently, and one beside another that breaks its context.
func sharing(ctx context.Context, m *machine) error {
	alone, err := m.together(ctx, "load")
	if err != nil {
		return fmt.Errorf("one server: %w", err)
	}
	m.head("servers", "steps in a second of the first", "of the second", "of both, by those of one alone")
	m.row("one", digits(alone[0]), "", "1")
	for _, c := range []struct {
		name   string
		second string
	}{{"two", "load"}, {"two, of which the second breaks its context", "load:" + faulty}} {
		rates, err := m.together(ctx, "load", c.second)
		if m.failed(c.name, err) {
			continue
		}
		m.row(c.name, digits(rates[0]), digits(rates[1]), digits((rates[0]+rates[1])/alone[0]))
	}
	return nil
}

// loading is the process of a load.
type loading struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  *bufio.Scanner
	stderr *tail
}

// together starts loads at the same moment, when all are ready, and returns the steps per second of each.
func (m *machine) together(ctx context.Context, parts ...string) (rates []float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []*loading
	defer func() {
		if err != nil {
			cancel()
		}
		for i, l := range all {
			if ended := l.cmd.Wait(); ended != nil {
				err = errors.Join(err, fmt.Errorf("server %d: %w\n%s", i+1, ended, l.stderr))
			}
		}
	}()
	for _, p := range parts {
		l := &loading{cmd: exec.CommandContext(ctx, self, "-part", p), stderr: &tail{}}
		if m.small {
			l.cmd.Args = append(l.cmd.Args, "-small")
		}
		l.cmd.Stderr, l.cmd.WaitDelay = l.stderr, 5*time.Second
		out, err := l.cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		l.lines = bufio.NewScanner(out)
		if l.stdin, err = l.cmd.StdinPipe(); err != nil {
			return nil, err
		}
		if err := l.cmd.Start(); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	for _, l := range all {
		if _, err := l.event(); err != nil {
			return nil, err
		}
	}
	for _, l := range all {
		if _, err := io.WriteString(l.stdin, "\n"); err != nil {
			return nil, err
		}
	}
	for _, l := range all {
		e, err := l.event()
		if err != nil {
			return nil, err
		}
		var rate float64
		if _, err := fmt.Sscan(strings.Join(e.Row, " "), &rate); err != nil {
			return nil, err
		}
		rates = append(rates, rate)
	}
	return rates, nil
}

// event reads an event that the process prints.
func (l *loading) event() (e event, err error) {
	if !l.lines.Scan() {
		return e, errors.Join(errors.New("a server ended early"), l.lines.Err())
	}
	return e, json.Unmarshal(l.lines.Bytes(), &e)
}
