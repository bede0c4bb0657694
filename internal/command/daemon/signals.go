package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/exit"
)

// CatchSignals catches SIGINT and SIGTERM from now on. It is called before a server exists, so that no signal ends
// the process halfway.
func CatchSignals() chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// ReloadOnHangup reads files again on SIGHUP, until stop is called.
func ReloadOnHangup(log *slog.Logger, reload func() error) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	quit := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case <-hangups:
			case <-quit:
				return
			}
			if err := reload(); err != nil {
				log.Error("the files could not be reloaded; the previous ones stay in use", "error", err)
				continue
			}
			log.Info("the files of the flags were reloaded")
		}
	})
	return func() {
		signal.Stop(hangups)
		close(quit)
		work.Wait()
	}
}

// Life says what ends servers, and how.
type Life struct {
	Signals chan os.Signal       // of CatchSignals: the first one drains the servers, a second one ends the process at once
	Stops   <-chan time.Duration // drain the servers in the time received; nil if nothing else than a signal does
	Drain   time.Duration        // how long running steps may continue after a signal
	// Finish is called before the servers stop, and may use them until ctx ends, which is after the drain time; nil does nothing.
	Finish func(ctx context.Context)
	Log    *slog.Logger
}

// Run keeps servers running until a signal, a stop, the end of ctx, or until all of them were stopped, and then drains them. Meanwhile it
// returns unused memory to the operating system.
func (l *Life) Run(ctx context.Context, servers ...*troupe.Server) {
	defer signal.Stop(l.Signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pools := make([]trimmer, len(servers))
	for i, s := range servers {
		pools[i] = s
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { keepSmall(ctx, pools...) })
	stopped := make(chan struct{})
	work.Go(func() {
		for _, s := range servers {
			if s.Join(ctx) != nil {
				return
			}
		}
		close(stopped)
	})

	drain := l.Drain
	select {
	case s := <-l.Signals:
		l.Log.Info("stopping", "signal", s.String(), "drain", drain.String())
	case drain = <-l.Stops:
		l.Log.Info("stopping", "drain", drain.String())
	case <-stopped:
	case <-ctx.Done():
	}
	cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.stop(drain, servers)
	}()
	select {
	case <-done:
	case s := <-l.Signals:
		l.Log.Warn("stopping at once", "signal", s.String())
		os.Exit(exit.CodeFailed)
	}
}

// stop stops servers concurrently. Steps that had to be cancelled are not a failure of the command.
func (l *Life) stop(drain time.Duration, servers []*troupe.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if l.Finish != nil {
		l.Finish(ctx)
	}
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() {
			if err := s.Stop(ctx); err != nil {
				l.Log.Warn("a server did not stop in order", "task", s.Task(), "error", err)
			}
		})
	}
	wg.Wait()
}
