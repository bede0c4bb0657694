package client

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

const (
	// seedTime is how long each of several servers has to answer.
	seedTime = 3 * time.Second
	// seedPause is how long a server has before the next one is asked as well.
	seedPause = 250 * time.Millisecond
)

// split splits a target that may name several servers.
func split(target string) []string {
	targets := strings.Split(target, ",")
	for i := range targets {
		targets[i] = strings.TrimSpace(targets[i])
	}
	return targets
}

// Discover asks several of Troupe's servers for the state of their cluster and returns the first answer. target, options and time limits
// are those of Dial.
func Discover(ctx context.Context, target string, opts ...Option) (*ClusterStatus, error) {
	config, err := configOf(opts)
	if err != nil {
		return nil, err
	}
	c, told, err := firstOf(ctx, split(target), config, func(ctx context.Context, c *Client) (*ClusterStatus, error) { return c.Status(ctx) })
	if err != nil {
		return nil, err
	}
	if err := c.Close(ctx); err != nil {
		return nil, err
	}
	return told, nil
}

// firstOf asks the servers until one has answered, and returns its client and the answer.
func firstOf[A any](ctx context.Context, targets []string, config *config, ask func(context.Context, *Client) (A, error)) (found *Client, answer A, err error) {
	clients := make([]*Client, 0, len(targets))
	defer func() {
		for _, c := range clients {
			if c != found {
				_ = c.Close(ctx) // it is not used anymore
			}
		}
	}()
	for _, target := range targets {
		c, err := newClient(target, config)
		if err != nil {
			return nil, answer, err
		}
		clients = append(clients, c)
	}
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	type result struct {
		from   int
		answer A
		err    error
	}
	results := make(chan result, len(clients))
	next, underWay := 0, 0
	begin := func() {
		i := next
		next++
		underWay++
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, seedTime)
			defer cancel()
			a, err := ask(ctx, clients[i])
			results <- result{i, a, err}
		})
	}
	reasons := make([]string, len(clients))
	pause := time.NewTicker(seedPause)
	defer pause.Stop()
	begin()
	for underWay > 0 {
		select {
		case r := <-results:
			underWay--
			if r.err == nil {
				return clients[r.from], r.answer, nil
			}
			reasons[r.from] = reason(targets[r.from], r.err)
			if next < len(clients) {
				begin()
			}
		case <-pause.C:
			if next < len(clients) {
				begin()
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, answer, status.From(err)
	}
	if len(reasons) == 1 {
		return nil, answer, status.New(status.Unavailable, reasons[0])
	}
	return nil, answer, status.Errorf(status.Unavailable, "None of %d servers answers:\n  %s", len(reasons), strings.Join(reasons, "\n  "))
}

// reason says in one line why a server could not be used.
func reason(target string, err error) string {
	text := status.From(err).Message
	if status.CodeOf(err) == status.DeadlineExceeded {
		text = "it did not answer in time"
	}
	return target + ": " + strings.TrimPrefix(text, target+": ")
}
