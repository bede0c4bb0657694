// Package contain confines a panic to the request that caused it. A panic that no goroutine recovers ends the process, and with it the
// steps of all clients. So every goroutine, timer and callback below package remote that runs input from outside goes through this package:
// a panic becomes an error of that request, and its stack goes to the log. A test (TestGoroutinesAreContained) checks this.
//
// A panic is still a bug: invalid requests are checked and refused earlier.
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

// Error returns the error for a recovered panic: INTERNAL, with what panicked, the panic's value and its location. The stack goes to log,
// or to the default logger if log is nil, unless too many were logged recently. Error must be called by the deferred function that
// recovered.
func Error(log *slog.Logger, what string, panicked any) error {
	if log == nil {
		log = slog.Default()
	}
	if suppressed, ok := stacks.allow(time.Now()); ok {
		log.Error("a panic was contained", "in", what, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()), "suppressed", suppressed)
	}
	return status.Internalf("%s panicked: %v%s", what, panicked, place())
}

// place returns the location of the panic that is being recovered, as file and line, or "" if unknown.
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

// stacksPerSecond bounds the logged stacks: a client may repeat the request that panics.
const stacksPerSecond = 10

// stacks is the process's rate limit for stacks.
var stacks allowance

// allowance is a limit of stacksPerSecond turns a second.
type allowance struct {
	mu         sync.Mutex
	second     int64
	taken      int
	suppressed int // since the last granted turn
}

// allow requests a turn. If it is granted, allow also returns the number of turns refused since the last one.
func (a *allowance) allow(now time.Time) (suppressed int, ok bool) {
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

// Run calls f. It returns f's error, or the error of its panic.
func Run(log *slog.Logger, what string, f func() error) (err error) {
	defer Recover(log, what, func(e error) { err = e })
	return f()
}

// Recover is for a defer statement: it calls failed with the error of a panic. If failed is nil, the panic is only logged.
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
			_ = Error(log, "The end of "+what, p) // only logged: no one else can be notified
		}
	}()
	failed(err)
}

// Func wraps f for a goroutine, timer or callback whose caller does not recover. It calls failed with the error of a panic, on the same
// goroutine; if failed is nil, the panic is only logged.
func Func(log *slog.Logger, what string, f func(), failed func(error)) func() {
	return func() {
		defer Recover(log, what, failed)
		f()
	}
}

// Go calls f on a new goroutine, like Func.
func Go(log *slog.Logger, what string, f func(), failed func(error)) { go Func(log, what, f, failed)() }
