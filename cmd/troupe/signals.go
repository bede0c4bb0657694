package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-run/troupe"
)

// catchSignals takes SIGINT and SIGTERM from now on: before a server is there, so that none ends
// the process halfway.
func catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// reloadOnHangup reads files again on SIGHUP, until stop is called.
func reloadOnHangup(log *slog.Logger, reload func() error) (stop func()) {
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
				log.Error("the files could not be reloaded; the ones from before hold", "error", err)
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

// runUntil keeps servers running until a signal or the end of ctx, and then drains them for at most
// the given time, or until stops has a time to drain them for. A signal after that ends the process at once.
func runUntil(ctx context.Context, signals chan os.Signal, stops <-chan time.Duration, log *slog.Logger, drain time.Duration, servers ...*troupe.Server) {
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pools := make([]trimmer, len(servers))
	for i, s := range servers {
		pools[i] = s
	}
	var keeping sync.WaitGroup
	defer keeping.Wait()
	keeping.Go(func() { keepSmall(ctx, pools...) })

	select {
	case s := <-signals:
		log.Info("stopping", "signal", s.String(), "drain", drain.String())
	case drain = <-stops:
		log.Info("stopping", "drain", drain.String())
	case <-ctx.Done():
	}
	cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		stopAll(log, drain, servers)
	}()
	select {
	case <-done:
	case s := <-signals:
		log.Warn("stopping at once", "signal", s.String())
		os.Exit(exitFailed)
	}
}

// stopAll stops servers side by side. That steps had to be cancelled is no failure of the command.
func stopAll(log *slog.Logger, drain time.Duration, servers []*troupe.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() {
			if err := s.Stop(ctx); err != nil {
				log.Warn("a server did not stop in order", "task", s.Task(), "error", err)
			}
		})
	}
	wg.Wait()
}
