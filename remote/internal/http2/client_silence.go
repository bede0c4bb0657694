package http2

import (
	"errors"
	"time"

	"github.com/troupe-run/troupe/remote/internal/standstill"
)

// strangerIdle is pingIdle for servers that do not say that they may be pinged sooner: gRPC's end a connection on which pings come more often than
// every five minutes (GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, keepalive.EnforcementPolicy).
const strangerIdle = 5*time.Minute + 10*time.Second

var errMute = errors.New("the server did not answer a ping")

// progress is what changes while a connection is of use: the number of reads and, during a write, how much the server has accepted.
type progress struct{ reads, sent uint64 }

// silence records for how long a server that owes answers has sent and accepted nothing.
type silence struct {
	still  standstill.Watch[progress]
	pinged time.Time // when a ping was sent, or could not be sent; zero if none was due
}

// startProbe begins to look after the connection. It ends with the connection.
func (c *Client) startProbe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.prober = time.AfterFunc(pingAnswer/2, c.probe)
	}
}

// probe pings a server that owes answers and has been silent, and ends the connection if the ping is not answered: the process may be frozen,
// or the machine gone, and TCP alone would not tell.
func (c *Client) probe() {
	if c.isMute(time.Now()) {
		c.shut(errMute)
	}
}

func (c *Client) isMute(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	q, idle := &c.silence, strangerIdle
	if c.pings > 0 {
		idle = max(c.pings, pingIdle)
	}
	made := progress{reads: c.in.reads.Load()}
	if c.busy {
		made.sent = c.sent
	}
	silent := q.still.Look(now, made, len(c.calls) > 0 && (c.busy || c.in.listening.Load()))
	switch {
	case silent == 0:
		q.pinged = time.Time{}
	case !q.pinged.IsZero() && now.Sub(q.pinged) >= pingAnswer:
		return true
	case q.pinged.IsZero() && silent >= idle:
		q.pinged = now
		if !c.busy { // else the server does not even accept what is being written
			c.queue.buf = append(appendHeader(c.queue.buf, 8, framePing, 0, 0), pingData...)
			c.work.Go(c.sendQueued)
		}
	}
	c.prober.Reset(pingAnswer / 2)
	return false
}

// sendQueued writes what is queued.
func (c *Client) sendQueued() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
}
