package client

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/wire"
)

const (
	// seedTime is how long one of several servers has to answer.
	seedTime = 3 * time.Second
	// seedPause is how long a server has before the next one is asked too.
	seedPause = 250 * time.Millisecond
)

// DialAny makes a client of the first of several servers that answers; one that is named earlier has
// a quarter of a second before the next is asked too. Where only one is named it is as Dial, and asks
// nobody. Each server gets 3 s at most. When none answers the error is UNAVAILABLE and lists them all,
// each with its reason.
func DialAny(ctx context.Context, targets ...string) (*Client, error) {
	if len(targets) == 1 {
		return Dial(targets[0])
	}
	c, _, err := firstOf(ctx, targets, func(ctx context.Context, c *Client) (struct{}, error) {
		_, err := c.Status(ctx)
		if status.CodeOf(err) == status.Unimplemented {
			err = nil // a server of TensorFlow's
		}
		return struct{}{}, err
	})
	return c, err
}

// Discover asks the first of several servers of Troupe's that answers for its cluster: the tasks that
// it declares, and what the server knows of each. It is bounded as DialAny is.
func Discover(ctx context.Context, targets ...string) (*spec.Spec, *wire.ClusterStatus, error) {
	c, told, err := firstOf(ctx, targets, func(ctx context.Context, c *Client) (*wire.ClusterStatus, error) { return c.Status(ctx) })
	if err != nil {
		return nil, nil, err
	}
	if err := c.Close(); err != nil {
		return nil, nil, status.From(err)
	}
	cluster, err := spec.Parse(told.GetSpec())
	if err != nil {
		return nil, nil, status.Internalf("%s told of a cluster that cannot be: %v", c.Target(), err)
	}
	return cluster, told, nil
}

// firstOf asks the servers until one has answered, and gives its client with the answer.
func firstOf[A any](ctx context.Context, targets []string, ask func(context.Context, *Client) (A, error)) (found *Client, answer A, err error) {
	if len(targets) == 0 {
		return nil, answer, status.InvalidArgumentf("No server is named: a target reads grpc://host:port")
	}
	clients := make([]*Client, 0, len(targets))
	defer func() {
		for _, c := range clients {
			if c != found {
				_ = c.Close() // nothing of it is used any more
			}
		}
	}()
	for _, target := range targets {
		c, err := Dial(target)
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

// reason tells in one line why a server was of no use.
func reason(target string, err error) string {
	text := status.From(err).Message
	if status.CodeOf(err) == status.DeadlineExceeded {
		text = "it did not answer in time"
	}
	return target + ": " + strings.TrimPrefix(text, target+": ")
}
