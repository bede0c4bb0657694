package troupe

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
)

// waiting returns a session with an operation that never ends by itself.
func waiting(t *testing.T, m Master) (*Session, op.Output) {
	t.Helper()
	s := op.NewScope()
	queue := op.FIFOQueueV2(s, []tensor.DType{tensor.Float32})
	element := op.QueueDequeueV2(s.WithName("take"), queue, []tensor.DType{tensor.Float32})[0]
	return sessionOf(t, m, s), element
}

func TestErrorsOfContexts(t *testing.T) {
	onBoth(t, func(t *testing.T, m Master) {
		session, element := waiting(t, m)
		callable, err := session.Prepare(t.Context(), nil, element)
		if err != nil {
			t.Fatal(err)
		}
		partial := func(ctx context.Context) error {
			p, err := session.PartialRun(ctx, nil, []string{element.Name()}, nil)
			if err != nil {
				return err
			}
			_, err = p.Run(ctx, nil, []string{element.Name()})
			return err
		}
		for name, run := range map[string]func(ctx context.Context) error{
			"Eval":       func(ctx context.Context) error { _, err := session.Eval(ctx, nil, element); return err },
			"Callable":   func(ctx context.Context) error { _, err := callable.Run(ctx); return err },
			"PartialRun": partial,
			"NewSession": func(ctx context.Context) error {
				<-ctx.Done()
				_, err := m.NewSession(ctx, nil, nil)
				return err
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- run(ctx) }()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s in a cancelled context: %T %v", name, err, err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := run(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				t.Errorf("%s in a context with a deadline: %T %v", name, err, err)
			}
			cancel()
		}
	})
}

// The error of a step that another goroutine's Close cancels is not context.Canceled.
func TestErrorsOfClosedSessions(t *testing.T) {
	onBoth(t, func(t *testing.T, m Master) {
		session, element := waiting(t, m)
		ended := make(chan error, 1)
		go func() { _, err := session.Eval(t.Context(), nil, element); ended <- err }()
		for range 2 {
			if err := session.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := <-ended; err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: %v", status.CodeOf(err), err)
		}
	})
}

func TestErrorsNameTheirNode(t *testing.T) {
	onBoth(t, func(t *testing.T, m Master) {
		s := op.NewScope()
		x := op.Placeholder(s.WithName("x"), tensor.Float32)
		y := op.Reshape(s.WithName("square"), x, op.Const(s, []int32{2, 2}))
		session := sessionOf(t, m, s)
		_, err := session.Eval(t.Context(), Feeds{x: []float32{1, 2, 3}}, y)
		var e *status.Error
		if !errors.As(err, &e) || e.Code != status.InvalidArgument || e.Node() != "square" {
			t.Errorf("%#v", err)
		}
	})
}

func TestOptionsThatDoNotApply(t *testing.T) {
	for want, make := range map[string]func() error{
		"WithLocalPorts does not apply to NewServer: ": func() error {
			_, err := NewServer(t.Context(), ClusterSpec{"w": {"localhost:0"}}, silent, WithLocalPorts("127.0.0.1", 0))
			return err
		},
		"WithLocalPorts does not apply to NewLocalServer: ": func() error {
			_, err := NewLocalServer(t.Context(), WithLocalPorts("127.0.0.1", 0))
			return err
		},
		"WithBind does not apply to NewLocalCluster: ": func() error {
			_, err := NewLocalCluster(t.Context(), map[string]int{"w": 1}, WithBind("127.0.0.1:0"))
			return err
		},
		"WithTask does not apply to NewLocalCluster: ": func() error {
			_, err := NewLocalCluster(t.Context(), map[string]int{"w": 1}, WithTask(0))
			return err
		},
		"WithStart does not apply to JoinCluster: ": func() error {
			_, err := JoinCluster(t.Context(), []string{"127.0.0.1:1"}, WithStart(true))
			return err
		},
		"WithLogger needs a logger":       func() error { _, err := NewLocalServer(t.Context(), WithLogger(nil)); return err },
		"option of NewLocalServer is nil": func() error { _, err := NewLocalServer(t.Context(), nil); return err },
		"WithTLS needs":                   func() error { _, err := Dial(t.Context(), "grpc://a:1", client.WithTLS(nil)); return err },
		"WithTimeout needs":               func() error { _, err := Dial(t.Context(), "grpc://a:1", client.WithTimeout(0)); return err },
	} {
		if err := make(); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Constructors do nothing if their context has ended.
func TestConstructorsInEndedContexts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, make := range map[string]func() error{
		"NewServer":       func() error { _, err := NewServer(ctx, ClusterSpec{"w": {"localhost:0"}}, silent); return err },
		"NewLocalServer":  func() error { _, err := NewLocalServer(ctx, silent); return err },
		"NewLocalCluster": func() error { _, err := NewLocalCluster(ctx, map[string]int{"w": 2}, silent); return err },
		"JoinCluster":     func() error { _, err := JoinCluster(ctx, []string{"127.0.0.1:1"}, silent); return err },
		"Dial":            func() error { _, err := Dial(ctx, "grpc://127.0.0.1:1"); return err },
		"Dial of several": func() error { _, err := Dial(ctx, "grpc://127.0.0.1:1,grpc://127.0.0.1:2"); return err },
		"Discover":        func() error { _, err := Discover(ctx, "127.0.0.1:1"); return err },
	} {
		if err := make(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A second Stop waits for the first until its own context ends.
func TestStopTwice(t *testing.T) {
	parallel(t)
	s, err := NewLocalServer(t.Context(), silent)
	if err != nil {
		t.Fatal(err)
	}
	session, element := waiting(t, s)
	var steps sync.WaitGroup
	steps.Go(func() { _, _ = session.Eval(t.Context(), nil, element) }) // it ends with the server
	first, stopping := make(chan error, 1), make(chan struct{})
	go func() {
		close(stopping)
		first <- s.Stop(context.WithoutCancel(t.Context()))
	}()
	<-stopping
	for s.Status() != nil { // nil once the first Stop has begun
		runtime.Gosched()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want := <-first
	if err := s.Stop(ended); !errors.Is(err, want) {
		t.Errorf("the first Stop gave %v, a later one %v", want, err)
	}
	steps.Wait()
}

// What a graph prints to a log goes to the logger of the server on which it runs.
func TestGraphsLogToTheServersLogger(t *testing.T) {
	var text logged
	server := localServer(t, WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
	s := op.NewScope()
	say := op.PrintV2(s.WithName("say"), op.Const(s, "hello from the graph"), attr.OutputStream("log(info)"))
	if _, err := sessionOf(t, server, s).Eval(t.Context(), nil, say); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "hello from the graph") || !strings.Contains(text.String(), "node=say") {
		t.Errorf("the server logged %s", text.String())
	}
}

// logged is a buffer that several goroutines write.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
