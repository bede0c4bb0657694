package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/devices/cuda"
	"github.com/troupe-run/troupe/devices/gpu"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/tensor"
)

// machine is the environment of a part: the card, and where its figures go.
type machine struct {
	card gpu.Card
	info gpu.Info
	options
	variant string
	enc     *json.Encoder
	written error // the first error of writing figures
}

func newMachine(o options, variant string) (*machine, error) {
	m := &machine{options: o, variant: variant, enc: json.NewEncoder(os.Stdout)}
	cards, err := cuda.Driver{}.Cards()
	if err != nil {
		return nil, err
	}
	m.card, m.info = cards[0], cards[0].Info()
	return m, nil
}

func (m *machine) write(e event) {
	if err := m.enc.Encode(e); err != nil && m.written == nil {
		m.written = err
	}
}

func (m *machine) text(format string, args ...any) {
	m.write(event{Text: fmt.Sprintf(format, args...)})
}
func (m *machine) head(cells ...string) { m.write(event{Head: cells}) }
func (m *machine) row(cells ...string)  { m.write(event{Row: cells}) }

// failed records a failure of a part, and reports whether there was one.
func (m *machine) failed(what string, err error) bool {
	if err != nil {
		m.write(event{Failed: what + ": " + err.Error()})
	}
	return err != nil
}

// emulated reports whether the driver is the fake one for tests.
func (m *machine) emulated() bool { return strings.Contains(m.info.Name, "Fake") }

// pick returns one of two sizes.
func pick[T any](m *machine, usual, small T) T {
	if m.small {
		return small
	}
	return usual
}

// best returns the least time that f takes. After a warm-up call, f is called at least three times, and until the total is long enough.
func (m *machine) best(f func() error) (time.Duration, error) {
	if err := f(); err != nil {
		return 0, err
	}
	enough, least := pick(m, 700*time.Millisecond, 0), pick(m, 3, 1)
	var all, best time.Duration
	for n := 0; n < least || all < enough; n++ {
		begun := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took := max(time.Since(begun), 1)
		if all += took; n == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

// quiet is the log of a part's servers and devices: their warnings show where the part fails.
var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

// bench is a server on the card, and sessions on it.
type bench struct {
	*machine
	server *troupe.Server
}

// onGPU is the card's device name for operations.
const onGPU = "/device:GPU:0"

// serve starts a server with a fraction of the card's memory.
func (m *machine) serve(ctx context.Context, opts ...troupe.Option) (*bench, error) {
	opts = append([]troupe.Option{troupe.WithLogger(quiet), troupe.WithGPUs(1),
		troupe.WithGPUOptions(&corepb.GPUOptions{PerProcessGpuMemoryFraction: 0.6, AllowGrowth: true})}, opts...)
	server, err := troupe.NewLocalServer(ctx, opts...)
	if err != nil {
		return nil, err
	}
	return &bench{m, server}, nil
}

// end stops the server.
func (b *bench) end(err *error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	*err = errors.Join(*err, b.server.Stop(ctx))
}

// session opens a session with a graph and initializes its variables; end destroys these and closes it.
func (b *bench) session(ctx context.Context, s *op.Scope) (session *troupe.Session, end func(*error), err error) {
	var destroyed []*op.Operation
	initialize := op.Initialize(s)
	for _, v := range s.Variables() {
		destroyed = append(destroyed, op.DestroyResourceOp(s.Beside(v.Handle().Op), v.Handle(), attr.IgnoreLookupError(true)))
	}
	destroy := op.Group(s, destroyed...)
	def, err := s.GraphDef()
	if err != nil {
		return nil, nil, err
	}
	if session, err = b.server.NewSession(ctx, def, nil); err != nil {
		return nil, nil, err
	}
	end = func(err *error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, e := session.Eval(ctx, nil, destroy); *err == nil {
			*err = e
		}
		*err = errors.Join(*err, session.Close(ctx))
	}
	if _, err = session.Eval(ctx, nil, initialize); err != nil {
		end(&err)
		return nil, nil, err
	}
	return session, end, nil
}

// step returns the least time of a step that runs what build adds on the card.
func (b *bench) step(ctx context.Context, build func(s *op.Scope) []*op.Operation) (best time.Duration, err error) {
	root := op.NewScope()
	var targets []op.Runnable
	for _, o := range build(root.WithDevice(onGPU)) {
		targets = append(targets, o)
	}
	session, end, err := b.session(ctx, root)
	if err != nil {
		return 0, err
	}
	defer end(&err)
	run, err := session.Prepare(ctx, nil, targets...)
	if err != nil {
		return 0, err
	}
	return b.best(func() error { return release(run.Run(ctx)) })
}

// release releases the tensors that a step returned.
func release(fetched []*tensor.Tensor, err error) error {
	for _, t := range fetched {
		t.Release()
	}
	return err
}

// random adds a variable of random numbers in [-1, 1), times scale.
func random(s *op.Scope, dtype tensor.DType, scale float64, sizes ...int32) op.Output {
	unit := op.RandomUniform(s, op.Const(s, sizes), tensor.Float32)
	scaled := op.Mul(s, op.Sub(s, unit, op.Const(s, float32(0.5))), op.Const(s, float32(2*scale)))
	return op.NewVariable(s, op.Cast(s, scaled, dtype)).Read(s)
}

// describeCard describes the machine's card.
func describeCard(_ context.Context, m *machine) error {
	m.write(event{Card: m.info.Name, Emulated: m.emulated()})
	m.head("card", m.info.Name)
	m.row("compute capability", fmt.Sprintf("%d.%d", m.info.Compute/10, m.info.Compute%10))
	m.row("memory", fmt.Sprintf("%.1f GiB, %.0f GB/s", float64(m.info.Memory)/(1<<30), m.bandwidth()/1e9))
	m.row("multiprocessors", fmt.Sprintf("%d at up to %.2f GHz", m.info.Processors, float64(m.info.Clock)/1e6))
	version, err := cuda.Version()
	if err != nil {
		return err
	}
	m.row("driver", fmt.Sprintf("%s, CUDA %d.%d", driver(m.emulated()), version/1000, version%1000/10))
	m.row("cuBLAS", m.libraryName())
	m.row("host", processor())
	return nil
}

// driver returns the version of the driver's kernel module.
func driver(emulated bool) string {
	if emulated {
		return "the emulated one"
	}
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return "of unknown version"
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.Join(strings.Fields(strings.TrimPrefix(first, "NVRM version:")), " ")
}

// processor returns the host's processor.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer func() { _ = f.Close() }()
	name, count := "unknown", 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(key) {
		case "processor":
			count++
		case "model name":
			name = strings.TrimSpace(value)
		}
	}
	return fmt.Sprintf("%s, %d processors", name, count)
}

// libraryName says whether cuBLAS is available.
func (m *machine) libraryName() string {
	there, err := m.library()
	switch {
	case err != nil:
		return err.Error()
	case !there:
		return "not installed"
	}
	return "installed"
}

// library reports whether matrix products use cuBLAS in this process.
func (m *machine) library() (there bool, err error) {
	err = m.bound(func(c gpu.Context) error {
		blas, err := c.Blas()
		if blas == nil || err != nil {
			return err
		}
		there = true
		return blas.Close()
	})
	return there, err
}

// runTests runs the tests, on the card unless the driver is emulated.
func runTests(ctx context.Context, m *machine) error {
	command := strings.Fields(m.tests)
	if len(command) == 0 {
		m.text("No command for the tests was given.")
		return nil
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	if !m.emulated() {
		cmd.Env = append(os.Environ(), "TROUPE_LIBCUDA=system")
	}
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	passed := 0
	var failures []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		switch {
		case strings.HasPrefix(text, "ok "), strings.HasPrefix(text, "ok\t"):
			passed++
		case strings.HasPrefix(text, "FAIL"), strings.HasPrefix(text, "--- FAIL"), strings.HasPrefix(text, "panic:"):
			failures = append(failures, text)
		}
		fmt.Fprintln(os.Stderr, lines.Text())
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long
	err = cmd.Wait()
	m.text("`%s`: %d packages passed.", strings.Join(command, " "), passed)
	if err != nil || len(failures) > 0 {
		const most = 40
		if len(failures) > most {
			failures = append(failures[:most], fmt.Sprintf("and %d more", len(failures)-most))
		}
		m.failed("the tests", fmt.Errorf("%w\n%s", err, strings.Join(failures, "\n")))
	}
	return nil
}
