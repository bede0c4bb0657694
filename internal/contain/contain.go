// Package contain keeps a panic to the request that it happened for. A goroutine whose panic nobody recovers ends the
// process, and with it the steps of all clients. So every goroutine, timer and callback below package remote that runs
// what came from outside goes through this package: a panic becomes an error of that request, and its stack goes to
// the log. A test (TestGoroutinesAreContained) holds it.
//
// A panic is a bug all the same: what is wrong with a request is checked, and refused, before.
package contain

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// Error makes the error of a recovered panic: INTERNAL, with what panicked, the panic's value and its place. The stack goes to
// log, or to the default one where log is nil, unless the log has had too many lately. It is called by the deferred
// function that recovered.
func Error(log *slog.Logger, what string, panicked any) error {
	if log == nil {
		log = slog.Default()
	}
	if suppressed, ok := stacks.take(time.Now()); ok {
		log.Error("a panic was contained", "in", what, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()), "suppressed", suppressed)
	}
	return status.Internalf("%s panicked: %v%s", what, panicked, place())
}

// place is where the panic is that is being recovered, as file and line; "" where that is not known.
func place() string {
	var calls [64]uintptr
	frames := runtime.CallersFrames(calls[:runtime.Callers(2, calls[:])])
	for panicking := false; ; {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			panicking = panicking || f.Function == "runtime.gopanic"
		case panicking:
			return fmt.Sprintf(" (%s:%d)", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}

// stacksPerSecond bounds the stacks that are logged: a client may repeat the request that panics.
const stacksPerSecond = 10

// stacks is the process's allowance of stacks.
var stacks allowance

// allowance gives out stacksPerSecond turns a second.
type allowance struct {
	mu         sync.Mutex
	second     int64
	taken      int
	suppressed int // since the last turn that was given
}

// take asks for a turn. Where it is given it comes with the number of those that were not.
func (a *allowance) take(now time.Time) (suppressed int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := now.Unix(); s != a.second {
		a.second, a.taken = s, 0
	}
	if a.taken == stacksPerSecond {
		a.suppressed++
		return 0, false
	}
	a.taken++
	suppressed, a.suppressed = a.suppressed, 0
	return suppressed, true
}

// Run calls f. A panic of f is its error.
func Run(log *slog.Logger, what string, f func() error) (err error) {
	defer Recover(log, what, func(e error) { err = e })
	return f()
}

// Recover is for a defer statement: failed is called with the error of a panic. nil leaves it to the log.
func Recover(log *slog.Logger, what string, failed func(error)) {
	p := recover()
	if p == nil {
		return
	}
	err := Error(log, what, p)
	if failed == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			_ = Error(log, "The end of "+what, p) // logged: nobody is left to be told
		}
	}()
	failed(err)
}

// Func is f for a goroutine, timer or callback whose caller recovers nothing. failed is called with the error of a panic,
// on the same goroutine; nil leaves it to the log.
func Func(log *slog.Logger, what string, f func(), failed func(error)) func() {
	return func() {
		defer Recover(log, what, failed)
		f()
	}
}

// Go calls f on a goroutine of its own, like Func.
func Go(log *slog.Logger, what string, f func(), failed func(error)) { go Func(log, what, f, failed)() }
